"""`tidelog produce TOPIC`: every line of the input becomes a message.

--format says otherwise: json is an object a line, as `consume --format json` prints it; a text with percent directives is what
`consume` would print with it: '%k:%v\\n' is key, colon, value, and '%K,%V,%k%v' has the lengths first.

Absent: transactions.
"""

import argparse
import os
import sys
from collections import deque
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from tidelog.cli._formats import Written, from_json
from tidelog.cli._options import (
    add_client_options,
    add_json,
    add_topics,
    client_config,
    one_topic,
    pairs,
)
from tidelog.cli._output import print_json_line
from tidelog.cli._parsing import reader
from tidelog.cli._progress import Progress
from tidelog.errors import SettingsError

if TYPE_CHECKING:
    from tidelog.client.batch import Delivery

HELP = "write messages, one a line of the input"
EXAMPLE = r"""examples:
  echo hello | tidelog produce greetings
  tidelog produce orders --key-separator : -H source=shop --file orders.txt
  tidelog consume orders --format json | tidelog produce copies --format json"""

_UNSETTLED = 100_000
"""Deliveries that are not looked at yet; more wait for the first."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_topics(parser, "the topic")
    add_client_options(parser)
    add = parser.add_argument
    add("--file", metavar="FILE", help="read this file instead of the standard input")
    add("-k", "--key", help="the key of all messages")
    add("--key-separator", metavar="TEXT", help="what is before it in a line is the key")
    add("-H", "--header", action="append", metavar="NAME=VALUE", help="a header of all messages")
    add("--partition", type=int, help="write to this one, whatever the key")
    add("--timestamp", type=int, metavar="MS", help="the time of all messages")
    add("-Z", "--empty-as-null", action="store_true", help="an empty value is null: a tombstone")
    add("--whole", action="store_true", help="the input is one message, not lines")
    add(
        "-f",
        "--format",
        default="lines",
        help="lines, json, or text with %%k %%v %%h %%T %%p %%K %%V",
    )
    for name in ("--property", "--reader-property"):
        add(name, dest="property", action="append", help=argparse.SUPPRESS)
    add(
        "--acks",
        "--request-required-acks",
        choices=["all", "-1", "1", "0"],
        help="who must have it (all)",
    )
    add(
        "-z",
        "--compression",
        "--compression-codec",
        choices=["none", "gzip", "snappy", "lz4", "zstd"],
        help="compress batches (none)",
    )
    add("-v", "--verbose", action="store_true", help="print where each message was written")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.blocking_producer import Producer

    topic = one_topic(arguments)
    _take_properties(arguments)
    config = client_config(arguments)
    if arguments.acks:
        config["acks"] = arguments.acks
    if arguments.compression:
        config["compression.type"] = arguments.compression
    with (
        _opened(arguments.file) as source,
        Producer(config) as producer,
        Progress(_size(arguments.file)) as progress,
    ):
        waiting: deque[Delivery] = deque()
        count = octets = 0
        for written in _messages(source, arguments):
            waiting.append(
                producer.send(
                    topic,
                    written.value,
                    written.key,
                    written.headers,
                    arguments.timestamp if arguments.timestamp is not None else written.timestamp,
                    arguments.partition if arguments.partition is not None else written.partition,
                )
            )
            count += 1
            octets += len(written.value or b"") + 1
            progress.update(octets)
            while waiting and (waiting[0].done() or len(waiting) > _UNSETTLED):
                _settle(waiting.popleft(), arguments)
        producer.flush()
        for delivery in waiting:
            _settle(delivery, arguments)
    if sys.stderr.isatty():
        print(f"{count} message{'' if count == 1 else 's'} to {topic}", file=sys.stderr)
    return 0


def _take_properties(arguments: argparse.Namespace) -> None:
    """What the properties of Kafka's console producer ask for."""
    given = pairs("--property", arguments.property)
    if given.get("parse.key") == "true" and arguments.key_separator is None:
        arguments.key_separator = given.get("key.separator", "\t")


def _opened(path: str | None) -> IO[bytes]:
    if path is None or path == "-":
        # Its own object, so that closing it does not close the standard input of a caller in this process.
        return open(sys.stdin.fileno(), "rb", closefd=False)
    return open(path, "rb")


def _size(path: str | None) -> int:
    return 0 if path is None or path == "-" else os.path.getsize(path)


def _messages(source: IO[bytes], arguments: argparse.Namespace) -> Iterator[Written]:
    """What the input says, in order."""
    headers = tuple(
        (name, value.encode()) for name, value in pairs("--header", arguments.header).items()
    )
    key = arguments.key.encode() if arguments.key is not None else None
    if arguments.format not in ("lines", "json"):
        for said in reader(arguments.format)(source):
            yield said._replace(key=key or said.key, headers=said.headers + headers)
        return
    separator = _separator(arguments.key_separator)
    for line in _texts(source, arguments.whole):
        if arguments.format == "json":
            said = from_json(line)
            yield said._replace(key=key or said.key, headers=said.headers + headers)
            continue
        own_key, value = key, line
        if separator is not None:
            own_key, found, value = line.partition(separator)
            if not found:
                shown = line[:60].decode(errors="replace")
                raise SettingsError(f"the line {shown!r} has no {arguments.key_separator!r} in it")
        nothing = arguments.empty_as_null and not value
        yield Written(own_key, None if nothing else value, headers, None, None)


def _texts(source: IO[bytes], whole: bool) -> Iterator[bytes]:
    if whole:
        yield source.read()
        return
    prompting = source.isatty()
    while True:
        if prompting:
            print(">", end="", file=sys.stderr, flush=True)
        line = source.readline()
        if not line:
            return
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _separator(text: str | None) -> bytes | None:
    if text is None:
        return None
    if not text:
        raise SettingsError("--key-separator is empty; give what stands between key and value")
    return text.replace("\\t", "\t").encode()


def _settle(delivery: "Delivery", arguments: argparse.Namespace) -> None:
    """Raises what went wrong with the message."""
    where = delivery.result()
    if arguments.json:
        print_json_line(where._asdict())
    elif arguments.verbose:
        print(f"{where.topic}-{where.partition} offset {where.offset} time {where.timestamp}")
