"""`tidelog consume TOPIC`: print messages, until told to stop or until there are no more.

On a terminal it follows the topic; into a pipe or file it prints what there is and ends.  `-n` waits for so many.
Where nothing else says where to start, it starts at the end if it follows without end, else at the beginning.

Absent: deserialisers, a schema registry.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.cli._export import PARQUET, open_export
from tidelog.cli._options import (
    add_client_options,
    add_topics,
    client_config,
    pairs,
    some_topics,
)
from tidelog.cli._progress import Progress
from tidelog.cli._reading import (
    EARLIEST,
    LATEST,
    POLL_RECORDS,
    POLL_S,
    Ended,
    offsets_at,
    partitions_of,
    start_reading,
)
from tidelog.cli._times import parse_time
from tidelog.client.filters import message_filter
from tidelog.errors import SettingsError
from tidelog.names import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.blocking_consumer import Consumer
    from tidelog.client.message import Message

HELP = "print messages"
EXAMPLE = r"""examples:
  tidelog consume greetings --from-beginning
  tidelog consume orders --since 10m --format '%T %k: %v\n'
  tidelog consume orders --group billing -n 100 --format json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_topics(parser)
    add_client_options(parser)
    add = parser.add_argument
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--from-beginning", action="store_true", help="start at the first message")
    start.add_argument(
        "-o",
        "--offset",
        metavar="WHERE",
        help="start at this offset, so many before the end (-10), beginning or end",
    )
    start.add_argument("--since", metavar="TIME", help="start at a time: 10m, 2026-01-31T12:00")
    add("--until", metavar="TIME", help="end at a time")
    add("-g", "--group", help="share the partitions with this group, and commit")
    add("--partition", type=int, action="append", help="only this one")
    add("-n", "--max-messages", type=int, metavar="N", help="end after so many")
    add("-e", "--exit", action="store_true", help="end when there are no more")
    add("-F", "--follow", action="store_true", help="wait for more, also into a pipe")
    add("--timeout-ms", type=int, metavar="MS", help="end when none came for so long")
    add("-f", "--format", help="json, csv, or text with %%k key %%v value %%p %%o %%t %%T %%d %%h")
    add("--json", dest="format", action="store_const", const="json", help="the same as -f json")
    add("--where", action="append", metavar="TEST", help="only such: key=a, value~text, header.h=b")
    for name in ("--property", "--formatter-property"):
        add(name, dest="property", action="append", help=argparse.SUPPRESS)
    levels = ["read_uncommitted", "read_committed"]
    add("--isolation-level", choices=levels, help=argparse.SUPPRESS)
    add("--read-committed", action="store_true", help="nothing of open or aborted transactions")


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.blocking_consumer import Consumer

    format = arguments.format or _format_of(pairs("--property", arguments.property))
    if format == PARQUET:
        raise SettingsError("consume may never end, so it writes no Parquet; `tidelog search` does")
    if arguments.group and (arguments.partition or arguments.offset or arguments.since):
        raise SettingsError(
            "--group goes on where the group was; move it with `tidelog group seek`, "
            "or leave out --partition, --offset and --since"
        )
    config = client_config(arguments)
    if arguments.group:
        config["group.id"] = arguments.group
    if not _starts_at_end(arguments):
        config.setdefault("auto.offset.reset", "earliest")
    if arguments.read_committed or arguments.isolation_level == "read_committed":
        config["isolation.level"] = "read_committed"
    with Consumer(config) as consumer:
        if arguments.group:
            consumer.subscribe(some_topics(arguments))
            ended, total = _group_end(consumer), 0
        else:
            ended, total = _assign(consumer, config, arguments)
        if _follows(arguments) or sys.stdout.isatty():
            total = 0  # without an end there is no bar, and beside what is printed no room for it
        with open_export(format, None) as export, Progress(total) as progress:
            for messages, read in _until_told(consumer, arguments, ended):
                export.write(messages)
                progress.update(read)
    return 0


def _until_told(
    consumer: "Consumer", arguments: argparse.Namespace, ended: Ended
) -> "Iterator[tuple[list[Message], int]]":
    """Polls until the count, the time or the end is reached, whichever the caller asked for.

    Yields what to show, and how many have been read in all.
    """
    read = 0
    left: int | None = arguments.max_messages
    until = _moment(arguments.until)
    fits = message_filter(arguments.where or (), int(time.time() * 1000))
    stops_at_end = not _follows(arguments)
    quiet_since = time.monotonic()
    while left is None or left > 0:
        most = POLL_RECORDS if left is None else min(left, POLL_RECORDS)
        messages = consumer.poll(max_records=most, timeout=POLL_S)
        if messages:
            quiet_since = time.monotonic()
            shown = [
                each
                for each in messages
                if (until is None or each.timestamp < until) and fits(each)
            ]
            if left is not None:
                left -= len(shown)
            read += len(messages)
            yield shown, read
        if stops_at_end and ended(not messages):
            return
        if arguments.timeout_ms and time.monotonic() - quiet_since > arguments.timeout_ms / 1000:
            return


def _follows(arguments: argparse.Namespace) -> bool:
    if arguments.exit or arguments.until:
        return False
    waits = arguments.follow or arguments.max_messages is not None or arguments.timeout_ms
    return bool(waits) or sys.stdout.isatty()


def _starts_at_end(arguments: argparse.Namespace) -> bool:
    """Where nothing says where to start: who wants so many messages wants them now, not when others have written more."""
    if arguments.from_beginning or not _follows(arguments):
        return False
    return bool(arguments.follow) or arguments.max_messages is None


def _assign(
    consumer: "Consumer", config: dict[str, str], arguments: argparse.Namespace
) -> tuple[Ended, int]:
    """Take the partitions and go to the start; also how many messages there are at most."""
    wanted = partitions_of(config, some_topics(arguments), arguments.partition)
    ends = offsets_at(consumer, wanted, LATEST)
    starts = _starts(consumer, wanted, ends, arguments)
    total = sum(max(0, ends[tp] - starts[tp]) for tp in wanted)
    return start_reading(consumer, starts, ends), total


def _starts(
    consumer: "Consumer",
    wanted: list[TopicPartition],
    ends: dict[TopicPartition, int],
    arguments: argparse.Namespace,
) -> dict[TopicPartition, int]:
    """Where to begin in each partition."""
    if arguments.since:
        found = offsets_at(consumer, wanted, _moment(arguments.since) or 0)
        return {tp: each if each >= 0 else ends[tp] for tp, each in found.items()}
    where = arguments.offset
    if where is None:
        where = "end" if _starts_at_end(arguments) else "beginning"
    if where in ("end", "latest"):
        return ends
    begins = offsets_at(consumer, wanted, EARLIEST)
    if where in ("beginning", "start", "earliest"):
        return begins
    try:
        number = int(where)
    except ValueError:
        raise SettingsError(
            f"--offset {where}: write a number, -10 for the last ten, beginning or end"
        ) from None
    if number < 0:
        return {tp: max(begins[tp], ends[tp] + number) for tp in wanted}
    short = [f"{tp} ends at {ends[tp]}" for tp in wanted if number > ends[tp]]
    if short:
        raise SettingsError(f"--offset {number}: {', '.join(short)}; `-o end` waits for what comes")
    return {tp: max(begins[tp], number) for tp in wanted}


def _group_end(consumer: "Consumer") -> Ended:
    def ended(quiet: bool) -> bool:
        mine = consumer.assigned()
        if not mine or not quiet:
            return False
        ends = consumer.find_offsets(dict.fromkeys(mine, LATEST))
        return all(consumer.position(*tp) >= ends[tp].offset for tp in mine)

    return ended


def _moment(text: str | None) -> int | None:
    return None if text is None else parse_time(text, int(time.time() * 1000))


def _format_of(properties: dict[str, str]) -> str:
    """What the properties of Kafka's console consumer ask for; the value alone without any."""
    shown = [
        text
        for name, text in (
            ("print.timestamp", "CreateTime:%T"),
            ("print.partition", "Partition:%p"),
            ("print.offset", "Offset:%o"),
            ("print.headers", "%h"),
            ("print.key", "%k"),
        )
        if properties.get(name) == "true"
    ]
    if properties.get("print.value") != "false":
        shown.append("%v")
    separator = properties.get("key.separator", "\t").replace("%", "%%")
    return separator.join(shown) + "\n"
