"""`tidelog peek TOPIC`: the last messages, or the last that pass a test, for eyes.

Absent: export to Parquet.
"""

import argparse
import csv
import io
import json
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

from tidelog.cli._filters import message_filter
from tidelog.cli._formats import Formatter, formatter
from tidelog.cli._options import add_client_options, add_topics, client_config, some_topics
from tidelog.cli._reading import (
    EARLIEST,
    LATEST,
    POLL_RECORDS,
    POLL_S,
    offsets_at,
    partitions_of,
    start_reading,
)
from tidelog.cli._times import parse_time, show_time

if TYPE_CHECKING:
    from tidelog.client.blocking_consumer import Consumer
    from tidelog.client.message import Message

HELP = "show the last messages, or the last that pass a test"
EXAMPLE = """examples:
  tidelog peek orders -n 3
  tidelog peek orders --where value.customer=42 --where 'time>=1h'
  tidelog peek orders --where 'value~refused' --format csv"""

_SHOWN_BYTES = 2_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_topics(parser)
    add_client_options(parser)
    add = parser.add_argument
    add("-n", "--max-messages", type=int, default=10, metavar="N", help="how many (10)")
    add("--partition", type=int, action="append", help="only this one")
    add("--since", metavar="TIME", help="look no further back than 10m, 2026-01-31T12:00")
    add("--where", action="append", metavar="TEST", help="only such: key=a, value~text, offset<9")
    add("-f", "--format", help="json, csv, or text with percent directives as in consume")


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.blocking_consumer import Consumer

    show = _formatter(arguments.format)
    config = client_config(arguments)
    with Consumer(config) as consumer:
        found = _last(consumer, config, arguments)
    if arguments.format == "csv":
        print("topic,partition,offset,timestamp,key,value")
        sys.stdout.flush()
    sys.stdout.buffer.write(b"".join(map(show, found)))
    sys.stdout.buffer.flush()
    return 0


def _formatter(text: str | None) -> Formatter:
    if text is None:
        return _readable
    return _csv_row if text == "csv" else formatter(text)


def _last(
    consumer: "Consumer", config: dict[str, str], arguments: argparse.Namespace
) -> "list[Message]":
    """The messages by time, then by place."""
    now_ms = int(time.time() * 1000)
    fits = message_filter(arguments.where or (), now_ms)
    wanted = partitions_of(config, some_topics(arguments), arguments.partition)
    ends = offsets_at(consumer, wanted, LATEST)
    if arguments.since:
        found = offsets_at(consumer, wanted, parse_time(arguments.since, now_ms))
        starts = {tp: at if at >= 0 else ends[tp] for tp, at in found.items()}
    else:
        starts = offsets_at(consumer, wanted, EARLIEST)
    if not arguments.where:
        starts = {tp: max(at, ends[tp] - arguments.max_messages) for tp, at in starts.items()}
    ended = start_reading(consumer, starts, ends)
    kept = {tp: deque["Message"](maxlen=arguments.max_messages) for tp in wanted}
    while not ended(False):
        for each in consumer.poll(POLL_RECORDS, timeout=POLL_S):
            if fits(each):
                kept[each.topic_partition].append(each)
    everything = [each for some in kept.values() for each in some]
    everything.sort(key=lambda each: (each.timestamp, each.topic, each.partition, each.offset))
    return everything[-arguments.max_messages :]


def _readable(message: "Message") -> bytes:
    """A line about the message, then its value: JSON with its structure, text as it is, other bytes in hex."""
    head = f"{message.topic}-{message.partition} @{message.offset}  {show_time(message.timestamp)}"
    if message.key is not None:
        head += f"  key {_text(message.key)}"
    for name, value in message.headers:
        head += f"  {name}={_text(value or b'')}"
    if message.value is None:
        body = "(null)"
    else:
        body = _pretty(message.value)
    return (head + "\n    " + body.replace("\n", "\n    ") + "\n").encode()


def _pretty(value: bytes) -> str:
    if value[:1] in (b"{", b"["):
        try:
            return json.dumps(json.loads(value), indent=2, ensure_ascii=False)
        except ValueError:
            pass
    return _text(value)


def _text(data: bytes) -> str:
    more = f" … {len(data)} bytes" if len(data) > _SHOWN_BYTES else ""
    try:
        text = data[:_SHOWN_BYTES].decode(errors="ignore" if more else "strict")
    except UnicodeDecodeError:
        return "0x" + data[:_SHOWN_BYTES].hex() + more
    # Control characters could do anything to a terminal.
    shown = "".join(
        each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text
    )
    return shown + more


def _csv_row(message: "Message") -> bytes:
    out = io.StringIO()
    key = "" if message.key is None else message.key.decode(errors="replace")
    value = "" if message.value is None else message.value.decode(errors="replace")
    csv.writer(out, lineterminator="\n").writerow([*message[:4], key, value])
    return out.getvalue().encode()
