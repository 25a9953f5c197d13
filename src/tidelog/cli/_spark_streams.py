"""`tidelog spark windows` and `tidelog spark join`: their options, and what they do with them."""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tidelog.cli._options import client_config, one_topic
from tidelog.cli._output import print_json, print_json_line, print_table
from tidelog.cli._times import parse_duration
from tidelog.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidelog.spark.jobs.streaming import Batch


def add_windows(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--window", required=True, metavar="TIME", help="length of a window: 30s, 5m, 1h")
    add("--slide", metavar="TIME", help="begin a window so often, so that they overlap")
    add("--session", action="store_true", help="a window ends when nothing came for --window")
    add("--by", default="", metavar="A,B", help="fields to count by, or key")
    add("--sum", dest="sums", default="", metavar="A,B", help="fields to add up")
    _add_values(parser, "--fields", "the fields of JSON values: 'item string, price double'")
    _add_stream(parser)


def add_join(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    other = parser.add_mutually_exclusive_group(required=True)
    other.add_argument("--stream", metavar="TOPIC", help="join what came within so long after")
    other.add_argument("--latest", metavar="TOPIC", help="join the last value of each key")
    other.add_argument("--with-table", metavar="DIR", help="join a Delta table")
    add("--on", required=True, metavar="A,B", help="fields that both have")
    add("--within", metavar="TIME", help="for --stream: how long after")
    add("--how", default="inner", choices=["inner", "left"], help="left keeps who found none")
    _add_values(parser, "--fields", "the fields of JSON values: 'item string, price double'")
    add("--other-fields", metavar="SCHEMA", help="the fields of the other side (--fields)")
    _add_stream(parser)


def _add_values(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    parser.add_argument(name, metavar="SCHEMA", help=text)
    parser.add_argument("--registry", metavar="URL", help="values are Avro, of this registry")


def _add_stream(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--late", default="10m", metavar="TIME", help="wait so long for what is late (10m)")
    add("--to", metavar="TOPIC", help="write to this topic, as JSON")
    add("--table", metavar="DIR", help="write to this Delta table")
    add("--checkpoint", metavar="DIR", help="where the stream keeps how far it is")
    add("--every", metavar="TIME", help="go on, at this distance; else up to what is there now")
    add("--group", metavar="NAME", help="a group that is told the offsets")


def run_windows(arguments: argparse.Namespace, spark: "SparkSession") -> None:
    from tidelog.spark import windowed

    def made(streaming: bool) -> "DataFrame":
        rows = _events(arguments, spark, one_topic(arguments), arguments.fields, streaming)
        return windowed(
            rows,
            _length(arguments.window),
            slide=_length(arguments.slide) if arguments.slide else None,
            session=arguments.session,
            by=_names(arguments.by),
            sums=_names(arguments.sums),
            late=_length(arguments.late),
        )

    if not arguments.to and not arguments.table:
        _show(arguments, made(streaming=False))
        return
    # What is counted so far is worth telling in a topic; into a table goes what is final.
    keys = ["window_start", "window_end", *_names(arguments.by)]
    mode = "append" if arguments.session else "update"
    done = _run(arguments, made(streaming=True), keys, mode)
    if done and done[-1].state and (arguments.table or arguments.session) and not arguments.json:
        print(
            f"{done[-1].state} windows are not over: each is written when a message comes that is --late {arguments.late} "
            "after its end"
        )


def run_join(arguments: argparse.Namespace, spark: "SparkSession") -> None:
    from tidelog.spark import join_streams, join_table

    on = _names(arguments.on)
    theirs = arguments.other_fields or arguments.fields
    if arguments.stream and not arguments.within:
        raise SettingsError("--stream needs --within: how long after a message its match may come")

    def made(streaming: bool) -> "DataFrame":
        rows = _events(arguments, spark, one_topic(arguments), arguments.fields, streaming)
        if not arguments.stream:
            return join_table(rows, _table(arguments, spark, theirs), on, how=arguments.how)
        right = _events(arguments, spark, arguments.stream, theirs, streaming)
        return join_streams(
            rows,
            right,
            on,
            within=_length(arguments.within),
            how=arguments.how,
            late=_length(arguments.late),
        )

    if not arguments.to and not arguments.table:
        _show(arguments, made(streaming=False))
        return
    _run(arguments, made(streaming=True), on, "append")


def _events(
    arguments: argparse.Namespace,
    spark: "SparkSession",
    topic: str,
    fields: str | None,
    streaming: bool,
) -> "DataFrame":
    """A topic's messages with their fields as columns."""
    from tidelog.spark import fields as json_fields
    from tidelog.spark import from_avro, stream_options

    options = {f"kafka.{name}": value for name, value in client_config(arguments).items()}
    options |= {"kafka.isolation.level": "read_committed", "subscribe": topic}
    if streaming:
        if not arguments.checkpoint:
            raise SettingsError("--to and --table need --checkpoint: a directory for the stream")
        options |= stream_options(f"{arguments.checkpoint}/{topic}", arguments.group)
        options["startingOffsets"] = "earliest"
        frame = spark.readStream.format("tidelog").options(**options).load()
    else:
        frame = spark.read.format("tidelog").options(**options).load()
    if arguments.registry:
        decoded = from_avro(frame, arguments.registry, subject=f"{topic}-value")
        return decoded.selectExpr("cast(key as string) key", "timestamp", "decoded.*")
    if fields:
        return json_fields(frame, fields)
    return frame.selectExpr("cast(key as string) key", "timestamp", "cast(value as string) value")


def _table(arguments: argparse.Namespace, spark: "SparkSession", fields: str | None) -> "DataFrame":
    from tidelog.spark import fields as json_fields
    from tidelog.spark import latest
    from tidelog.spark.results import read_table

    if arguments.latest:
        if not fields:
            raise SettingsError("--latest needs --fields, or --other-fields: what its values have")
        return latest(spark, arguments.latest, client_config(arguments), fields)
    found = read_table(spark, arguments.with_table)
    is_lake = {"key", "value", "timestamp", "offset"} <= set(found.columns)
    return json_fields(found, fields) if is_lake and fields else found


def _run(
    arguments: argparse.Namespace, frame: "DataFrame", key: list[str], topic_mode: str
) -> "Sequence[Batch]":
    from tidelog.spark import jobs, to_table, to_topic

    if arguments.to and arguments.table:
        raise SettingsError("--to and --table: name one")
    if arguments.dry_run:
        _describe(arguments, frame)
        return ()
    if arguments.to:
        where = client_config(arguments)
        writer = to_topic(
            frame, arguments.to, where, arguments.checkpoint, key=key, mode=topic_mode
        )
    else:
        writer = to_table(frame, arguments.table, arguments.checkpoint)

    def tell(batch: "jobs.Batch") -> None:
        if arguments.json:
            print_json_line(asdict(batch))
        else:
            print(batch.line(), flush=True)

    every = _length(arguments.every) if arguments.every else None
    done = jobs.run_stream(writer, every, tell)
    if not arguments.json:
        rows = sum(each.rows for each in done)
        count = sum(1 for each in done if each.rows)
        print(f"{arguments.to or arguments.table}: {rows} rows read in {count} batches")
    return done


def _describe(arguments: argparse.Namespace, frame: "DataFrame") -> None:
    where = {"to": arguments.to, "table": arguments.table, "checkpoint": arguments.checkpoint}
    columns = dict(frame.dtypes)
    if arguments.json:
        print_json({**where, "columns": columns, "dry_run": True})
    else:
        print_table(("COLUMN", "TYPE"), list(columns.items()))
        print(f"would be written to {arguments.to or arguments.table}")


def _show(arguments: argparse.Namespace, frame: "DataFrame") -> None:
    """All of it, once."""
    if arguments.dry_run:
        _describe(arguments, frame)
        return
    ordered = frame.orderBy(*frame.columns[:1])
    rows: list[Any] = [row.asDict(recursive=True) for row in ordered.collect()]
    if arguments.json:
        print_json(json.loads(json.dumps(rows, default=str)))
    else:
        print_table([name.upper() for name in frame.columns], [list(row.values()) for row in rows])


def _length(text: str) -> str:
    """A length of time as Spark writes it."""
    return f"{parse_duration(text)} milliseconds"


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
