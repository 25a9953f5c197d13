"""`tidelog spark`: topics into a lake, and what a lake needs; see docs/guide/spark.md.

Needs `pip install 'tidelog[spark]'`, and Java 17 or newer unless `--master none`.
"""

import argparse
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tidelog.cli._options import (
    add_actions,
    add_client_options,
    add_json,
    add_topics,
    client_config,
    one_topic,
    some_topics,
)
from tidelog.cli._output import print_json, print_json_line, print_table
from tidelog.cli._progress import Progress
from tidelog.cli._times import parse_duration
from tidelog.errors import StartError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.spark.jobs import LoadResult, Step

HELP = "load topics into a lake with Spark, and look after it"
EXAMPLE = "example: tidelog spark load clicks --table /data/lake"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(
        parser,
        [
            (
                "load",
                "topics into a Delta table, every message once",
                "tidelog spark load clicks views --table /data/lake --every 10m",
            ),
            (
                "status",
                "how far a table is behind its topics",
                "tidelog spark status clicks --table /data/lake",
            ),
            (
                "compact",
                "small files into large ones, and remove old ones",
                "tidelog spark compact --table /data/lake --vacuum-after 7d",
            ),
            (
                "sql",
                "ask a table, which is called lake",
                "tidelog spark sql --table /data/lake 'select topic, count(*) from lake group by 1'",
            ),
            (
                "replay",
                "write a table's messages into a topic",
                "tidelog spark replay copy --table /data/lake --where \"topic = 'clicks'\"",
            ),
        ],
    )
    for name, each in actions.items():
        each.add_argument("--table", required=True, metavar="DIR", help="the table's directory")
        add_json(each)
        if name in ("load", "status", "replay"):
            add_client_options(each)
            add_topics(each)
        if name in ("load", "sql", "replay"):
            each.add_argument("--master", default="local[*]", help=_MASTER[name])
    _add_load(actions["load"])
    _add_compact(actions["compact"])
    actions["sql"].add_argument("query", help="what to ask")
    for name in ("sql", "replay"):
        actions[name].add_argument(
            "--version", type=int, metavar="N", help="as of this version of the table"
        )
    actions["replay"].add_argument("--where", metavar="SQL", help="only messages that fit")


def run(arguments: argparse.Namespace) -> int:
    try:
        import deltalake  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise StartError(f"{error.name} is missing: pip install 'tidelog[spark]'") from None
    _ACTIONS[arguments.action](arguments)
    return 0


_MASTER = {
    "load": "where tasks run: Spark's master (local[*]), or none for this process",
    "sql": "Spark's master (local[*])",
    "replay": "Spark's master (local[*])",
}


def _add_load(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--until", metavar="TIME", help="no further than this: 10m (ago), 2026-01-31T12:00 (now)")
    add("--every", metavar="TIME", help="again and again, at this distance, until interrupted")
    add("--decode", default="raw", choices=["raw", "json", "avro"], help="what values are (raw)")
    add("--registry", default="", metavar="URL", help="the schema registry, for avro")
    add("--group", metavar="NAME", help="the group that is told the offsets (lake-<table>)")
    add("--on-gap", default="fail", choices=["fail", "skip"], help="if records are gone (fail)")
    add("--max-offsets", type=int, default=5_000_000, metavar="N", help="of one commit (5000000)")
    add("--dry-run", action="store_true", help="say what would be loaded")


def _add_compact(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--target-mb", type=int, default=128, metavar="N", help="size of the files (128)")
    add("--min-age", default="1h", metavar="TIME", help="only hours that ended so long ago (1h)")
    add("--vacuum-after", default="7d", metavar="TIME", help="keep unused files so long (7d)")


def _load(arguments: argparse.Namespace) -> None:
    topics = some_topics(arguments)
    spark = None
    if arguments.master != "none" and not arguments.dry_run:
        spark = _session("load", arguments.master)
    every_ms = parse_duration(arguments.every) if arguments.every else None
    while True:
        began = time.monotonic()
        _load_once(arguments, topics, spark)
        if every_ms is None:
            return
        time.sleep(max(0.0, every_ms / 1000 - (time.monotonic() - began)))


def _load_once(
    arguments: argparse.Namespace, topics: list[str], spark: "SparkSession | None"
) -> None:
    from tidelog.spark import jobs

    done = 0
    with Progress(0) as progress:

        def tell(step: "Step") -> None:
            nonlocal done, progress
            done += step.offsets
            if arguments.json:
                print_json_line(asdict(step))
            else:
                progress.hide()
                print(step.line(), flush=True)
                if step.lag:
                    progress = Progress(done + step.lag)
                    progress.update(done, f"{step.lag} left")

        result = jobs.load(
            topics,
            arguments.table,
            client_config(arguments),
            spark=spark,
            until=arguments.until,
            decode=arguments.decode,
            registry=arguments.registry,
            group=arguments.group,
            on_gap=arguments.on_gap,
            max_offsets_per_commit=arguments.max_offsets,
            dry_run=arguments.dry_run,
            tell=tell,
        )
    _summary(arguments, result)


def _summary(arguments: argparse.Namespace, result: "LoadResult") -> None:
    if arguments.json:
        facts: dict[str, Any] = {"table": result.table, "start": result.start, "end": result.end}
        facts |= {"dry_run": result.dry_run, "rows": result.rows, "seconds": result.seconds}
        print_json_line({**facts, "quarantined": result.quarantined})
    elif result.dry_run:
        rows = [
            (
                topic,
                partition,
                result.start[topic].get(partition),
                end,
                end - result.start[topic][partition],
            )
            for topic, partitions in result.end.items()
            for partition, end in partitions.items()
        ]
        print_table(("TOPIC", "PARTITION", "FROM", "TO", "OFFSETS"), rows)
    else:
        print(
            f"{result.table}: {result.rows} rows in {len(result.steps)} commits, "
            f"{result.quarantined} quarantined, {result.seconds:.1f} s"
        )


def _status(arguments: argparse.Namespace) -> None:
    from tidelog.spark import jobs

    found = jobs.status(some_topics(arguments), arguments.table, client_config(arguments))
    if arguments.json:
        print_json([asdict(each) for each in found])
        return
    heads = ("TOPIC", "PARTITION", "IN-TABLE", "AT-BROKER", "LAG")
    print_table(
        heads,
        [(each.topic, each.partition, each.in_table, each.at_broker, each.lag) for each in found],
    )


def _compact(arguments: argparse.Namespace) -> None:
    from datetime import timedelta

    from tidelog.spark import jobs

    done = jobs.compact(
        arguments.table,
        target_mb=arguments.target_mb,
        min_age=timedelta(milliseconds=parse_duration(arguments.min_age)),
        vacuum_after=timedelta(milliseconds=parse_duration(arguments.vacuum_after)),
    )
    if arguments.json:
        print_json(asdict(done))
    else:
        print(f"{done.files_before} files became {done.files_after}; {done.removed} removed")


def _sql(arguments: argparse.Namespace) -> None:
    from tidelog.spark import jobs

    spark = _session("sql", arguments.master)
    jobs.table(spark, arguments.table, arguments.version).createOrReplaceTempView("lake")
    frame = spark.sql(arguments.query)
    rows: list[Any] = [row.asDict() for row in frame.collect()]
    if arguments.json:
        print_json(rows)
    else:
        print_table(frame.columns, [list(row.values()) for row in rows])


def _replay(arguments: argparse.Namespace) -> None:
    from tidelog.spark import jobs

    topic = one_topic(arguments)
    spark = _session("replay", arguments.master)
    count = jobs.replay(
        spark,
        arguments.table,
        topic,
        client_config(arguments),
        version=arguments.version,
        where=arguments.where,
    )
    if arguments.json:
        print_json({"topic": topic, "messages": count})
    else:
        print(f"Wrote {count} messages to {topic}.")


def _session(name: str, master: str) -> "SparkSession":
    try:
        from tidelog.spark import session
    except ImportError as error:
        raise StartError(str(error)) from None
    print(f"starting Spark on {master}", file=sys.stderr, flush=True)
    made = session(f"tidelog {name}", master)
    made.sparkContext.setLogLevel("ERROR")
    return made


_ACTIONS = {
    "load": _load,
    "status": _status,
    "compact": _compact,
    "sql": _sql,
    "replay": _replay,
}
