"""`tidelog search TOPIC`: all messages that pass the tests, oldest first, or an export of them.

It reads from the beginning, or from --since, to the end that the topic had when it was called.  --output writes a file, whose
name says what it becomes: .json, .csv or .parquet.  The exit code is 1 when nothing was found.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.cli._export import open_export
from tidelog.cli._options import add_client_options, add_topics, client_config, some_topics
from tidelog.cli._progress import Progress
from tidelog.cli._readable import readable
from tidelog.cli._reading import (
    EARLIEST,
    LATEST,
    POLL_RECORDS,
    POLL_S,
    offsets_at,
    partitions_of,
    start_reading,
)
from tidelog.cli._times import parse_time
from tidelog.client.filters import message_filter

if TYPE_CHECKING:
    from tidelog.client.blocking_consumer import Consumer
    from tidelog.client.message import Message

HELP = "find messages, or export them"
EXAMPLE = """examples:
  tidelog search orders --where value.customer=42 --since 1d
  tidelog search orders --where key=alice -n 1 --json
  tidelog search orders --since 2026-01-01 --until 2026-02-01 --output january.parquet"""

NOTHING_FOUND = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_topics(parser)
    add_client_options(parser)
    add_search_options(parser)
    add = parser.add_argument
    add("-n", "--max-messages", type=int, metavar="N", help="end after so many")
    add("--until", metavar="TIME", help="look no further than this")


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """What `peek` has as well."""
    add = parser.add_argument
    add("--partition", type=int, action="append", help="only this one")
    add("--since", metavar="TIME", help="look no further back than 10m, 2026-01-31T12:00")
    add("--where", action="append", metavar="TEST", help="only such: key=a, value~text, offset<9")
    add("-f", "--format", help="json, csv, parquet, or text with percent directives as in consume")
    add("--json", dest="format", action="store_const", const="json", help="the same as -f json")
    add("--output", metavar="FILE", help="write there; .json, .csv and .parquet say the format")
    add("--read-committed", action="store_true", help="nothing of open or aborted transactions")


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.blocking_consumer import Consumer

    config = consumer_config(arguments)
    show = readable if arguments.format is None and arguments.output is None else None
    found = 0
    with Consumer(config) as consumer:
        batches = _found(consumer, config, arguments)
        with open_export(arguments.format or "", arguments.output, show) as export:
            for messages in batches:
                export.write(messages)
                found += len(messages)
    if arguments.output and sys.stderr.isatty():
        print(f"{found} message{'' if found == 1 else 's'} to {arguments.output}", file=sys.stderr)
    return 0 if found else NOTHING_FOUND


def consumer_config(arguments: argparse.Namespace) -> dict[str, str]:
    """The client's settings, with what the options ask for."""
    config = client_config(arguments)
    if arguments.read_committed:
        config["isolation.level"] = "read_committed"
    return config


def _found(
    consumer: "Consumer", config: dict[str, str], arguments: argparse.Namespace
) -> "Iterator[list[Message]]":
    now_ms = int(time.time() * 1000)
    fits = message_filter(arguments.where or (), now_ms)
    until = None if arguments.until is None else parse_time(arguments.until, now_ms)
    wanted = partitions_of(config, some_topics(arguments), arguments.partition)
    ends = offsets_at(consumer, wanted, LATEST)
    starts = offsets_at(consumer, wanted, EARLIEST)
    if arguments.since is not None:
        found = offsets_at(consumer, wanted, parse_time(arguments.since, now_ms))
        starts = {tp: at if at >= 0 else ends[tp] for tp, at in found.items()}
    ended = start_reading(consumer, starts, ends)
    left: int | None = arguments.max_messages
    seen = 0
    with Progress(sum(ends[tp] - starts[tp] for tp in wanted)) as progress:
        while not ended(False) and (left is None or left > 0):
            messages = consumer.poll(max_records=POLL_RECORDS, timeout=POLL_S)
            seen += len(messages)
            chosen = [
                each
                for each in messages
                if each.offset < ends[each.topic_partition]
                and (until is None or each.timestamp < until)
                and fits(each)
            ][:left]
            if left is not None:
                left -= len(chosen)
            if chosen:
                progress.hide()
                yield chosen
            progress.update(seen)
