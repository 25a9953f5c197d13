"""`tidelog spark`: topics into a lake, and what a lake needs; see docs/guide/spark.md.

Needs `pip install 'tidelog[spark]'`, and Java 17 or newer unless `--master none`.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.cli import _spark_streams
from tidelog.cli._options import (
    add_actions,
    add_client_options,
    add_json,
    add_topics,
    client_config,
    one_topic,
    pairs,
    some_topics,
)
from tidelog.cli._output import print_json, print_json_line, print_table
from tidelog.cli._progress import Progress
from tidelog.cli._times import parse_duration
from tidelog.cli.main import FAILED
from tidelog.errors import SettingsError, StartError, TidelogError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.spark.jobs import LakeTier, LoadResult, Step

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
            (
                "windows",
                "counts and sums by window; shown, or kept up in a topic or a table",
                "tidelog spark windows clicks --fields 'item string' --by item --window 5m",
            ),
            (
                "join",
                "a topic with a table, or with another topic in time, into a topic or a table",
                "tidelog spark join views --stream clicks --on item --within 30m --fields 'item string' "
                "--to seen --checkpoint /data/seen",
            ),
            (
                "audit",
                "count tiers anew and compare them; exit code 1 if they differ",
                "tidelog spark audit clicks --tier live=h1:9092 --tier lake=/data/lake",
            ),
        ],
    )
    for name, each in actions.items():
        if name not in ("windows", "join", "audit"):
            each.add_argument("--table", required=True, metavar="DIR", help="the table's directory")
        add_json(each)
        if name not in ("compact", "sql"):
            add_client_options(each)
            add_topics(each)
        if name not in ("status", "compact"):
            each.add_argument("--master", default="local[*]", help=_MASTER.get(name, _ANY_MASTER))
            each.add_argument(
                "--conf",
                action="append",
                metavar="NAME=VALUE",
                help="a setting of Spark's: spark.executor.memory=4g",
            )
    _add_load(actions["load"])
    _spark_streams.add_windows(actions["windows"])
    _spark_streams.add_join(actions["join"])
    _add_audit(actions["audit"])
    _add_compact(actions["compact"])
    actions["sql"].add_argument("query", help="what to ask")
    for name in ("sql", "replay"):
        actions[name].add_argument(
            "--version", type=int, metavar="N", help="as of this version of the table"
        )
    actions["replay"].add_argument("--where", metavar="SQL", help="only messages that fit")
    for name in ("compact", "replay", "windows", "join"):
        actions[name].add_argument("--dry-run", action="store_true", help="say what would be done")


def run(arguments: argparse.Namespace) -> int:
    try:
        import deltalake  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise StartError(f"{error.name} is missing: pip install 'tidelog[spark]'") from None
    try:
        return _ACTIONS[arguments.action](arguments) or 0
    except Exception as error:  # Spark may be missing, and with it its exceptions
        if not type(error).__module__.startswith("pyspark."):
            raise
        from tidelog.spark.failures import reason

        raise TidelogError(reason(error)) from error


_ANY_MASTER = "Spark's master (local[*]), or a Spark Connect server: sc://host:15002"
_MASTER = {"load": f"{_ANY_MASTER}; none runs the tasks in this process"}


def _add_load(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--until", metavar="TIME", help="no further than this: 10m (ago), 2026-01-31T12:00 (now)")
    add("--every", metavar="TIME", help="again and again, at this distance, until interrupted")
    add("--decode", default="raw", choices=["raw", "json", "avro"], help="what values are (raw)")
    add("--registry", default="", metavar="URL", help="the schema registry, for avro and the audit")
    add("--format", choices=["delta", "parquet"], help="of a new table (delta)")
    add("--audit", metavar="TIER", help="count for the audit, as this tier")
    add("--audit-window", default="10m", metavar="TIME", help="length of its windows (10m)")
    add("--group", metavar="NAME", help="the group that is told the offsets (lake-<table>)")
    add("--on-gap", default="fail", choices=["fail", "skip"], help="if records are gone (fail)")
    add("--max-offsets", type=int, default=5_000_000, metavar="N", help="of one commit (5000000)")
    add("--dry-run", action="store_true", help="say what would be loaded")


def _add_compact(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--target-mb", type=int, default=128, metavar="N", help="size of the files (128)")
    add("--min-age", default="1h", metavar="TIME", help="only hours that ended so long ago (1h)")
    add("--vacuum-after", default="7d", metavar="TIME", help="keep unused files so long (7d)")


def _add_audit(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--tier",
        dest="tiers",
        action="append",
        required=True,
        metavar="NAME=PLACE",
        help="a cluster's host:port, or a table's directory, to be counted; several times",
    )
    add("--published", default="", metavar="A,B", help="tiers that count by themselves, go first")
    add("--window", default="10m", metavar="TIME", help="length of a window (10m)")
    add("--grace", default="0s", metavar="TIME", help="a window's time after its end (0s)")
    add("--html", metavar="FILE", help="write a page with charts")


def _load(arguments: argparse.Namespace) -> None:
    topics = some_topics(arguments)
    spark = None
    if arguments.master != "none" and not arguments.dry_run:
        spark = _session("load", arguments)
    every_ms = parse_duration(arguments.every) if arguments.every else None
    while True:
        began = time.monotonic()
        if every_ms is None:
            _load_once(arguments, topics, spark)
            return
        _try_to_load(arguments, topics, spark)
        time.sleep(max(0.0, every_ms / 1000 - (time.monotonic() - began)))


def _try_to_load(
    arguments: argparse.Namespace, topics: list[str], spark: "SparkSession | None"
) -> None:
    """A load that is to go on for days outlives brokers that are away, full disks and lost executors: nothing was committed."""
    from tidelog.spark.lake import LoadRefused
    from tidelog.spark.planning import DataLost

    try:
        _load_once(arguments, topics, spark)
    except (LoadRefused, DataLost, SettingsError):
        raise  # will be the same the next time
    except (TidelogError, OSError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        print(f"tidelog: {said}; trying again", file=sys.stderr, flush=True)


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
            format=arguments.format,
            tier=_tier(arguments),
            group=arguments.group,
            on_gap=arguments.on_gap,
            max_offsets_per_commit=arguments.max_offsets,
            dry_run=arguments.dry_run,
            tell=tell,
        )
    _summary(arguments, result)


def _tier(arguments: argparse.Namespace) -> "LakeTier | None":
    if not arguments.audit:
        return None
    from tidelog.spark.jobs import LakeTier

    window_ms = parse_duration(arguments.audit_window)
    return LakeTier(arguments.audit, window_ms, arguments.registry or None)


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
        dry_run=arguments.dry_run,
    )
    if arguments.json:
        print_json(asdict(done))
    elif arguments.dry_run:
        print(
            f"{done.files_before} files could become {done.files_after}; {done.removed} would be removed"
        )
    else:
        print(f"{done.files_before} files became {done.files_after}; {done.removed} removed")


def _sql(arguments: argparse.Namespace) -> None:
    from tidelog.spark import jobs

    spark = _session("sql", arguments)
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
    spark = _session("replay", arguments)
    count = jobs.replay(
        spark,
        arguments.table,
        topic,
        client_config(arguments),
        version=arguments.version,
        where=arguments.where,
        dry_run=arguments.dry_run,
    )
    if arguments.json:
        print_json({"topic": topic, "messages": count, "dry_run": arguments.dry_run})
    else:
        print(f"{'Would write' if arguments.dry_run else 'Wrote'} {count} messages to {topic}.")


def _audit(arguments: argparse.Namespace) -> int:
    from tidelog.audit import html
    from tidelog.audit.ledger import INCOMPLETE
    from tidelog.cli.audit import print_windows
    from tidelog.spark import jobs

    topics, tiers = some_topics(arguments), pairs("--tier", arguments.tiers)
    published = [each.strip() for each in arguments.published.split(",") if each.strip()]
    reports = jobs.audit(
        _session("audit", arguments),
        topics,
        tiers,
        client_config(arguments),
        window_ms=parse_duration(arguments.window),
        published=published,
        grace_ms=parse_duration(arguments.grace),
    )
    names = [*published, *tiers]
    if arguments.html:
        now = time.time_ns() // 1_000_000
        Path(arguments.html).write_text(html.page(reports, names, {}, now))
    if arguments.json:
        print_json({"tiers": names, "windows": [asdict(each) for each in reports]})
    else:
        print_windows(reports, names)
    bad = [each for each in reports if each.state == INCOMPLETE]
    if not arguments.json:
        said = f"{len(bad)} of {len(reports)} windows differ" if bad else "complete"
        totals = ", ".join(f"{name} {sum(each.counts[name] for each in reports)}" for name in names)
        print(f"{said}: {totals}")
    return FAILED if bad else 0


def _windows(arguments: argparse.Namespace) -> None:
    _spark_streams.run_windows(arguments, _session("windows", arguments))


def _join(arguments: argparse.Namespace) -> None:
    _spark_streams.run_join(arguments, _session("join", arguments))


def _session(name: str, arguments: argparse.Namespace) -> "SparkSession":
    try:
        from tidelog.spark import session
    except ImportError as error:
        raise StartError(str(error)) from None
    print(f"starting Spark on {arguments.master}", file=sys.stderr, flush=True)
    conf = {"spark.log.level": "ERROR", **pairs("--conf", arguments.conf)}
    return session(f"tidelog {name}", arguments.master, **conf)


_ACTIONS: dict[str, Callable[[argparse.Namespace], int | None]] = {
    "load": _load,
    "status": _status,
    "compact": _compact,
    "sql": _sql,
    "replay": _replay,
    "windows": _windows,
    "join": _join,
    "audit": _audit,
}
