"""Copy topics from one cluster to another, or from several, until told to stop.

Batches pass on as they are: keys, headers, timestamps and compression are kept.  Topics are made at the target as they are
at the source, and new ones are picked up.  Mirrors of one --group share the work, and take over from each other.  A side
that cannot be reached is waited for, without end.

Absent: mirroring both ways under one name (give a --prefix), and following topics that are deleted.
"""

import argparse
import asyncio
import json
import signal
import sys
import time
from typing import TYPE_CHECKING

from tidelog.cli import _logs
from tidelog.cli._options import pairs
from tidelog.cli._times import parse_duration
from tidelog.errors import StartError

if TYPE_CHECKING:
    from tidelog.mirror import Mirror, MirrorOptions

HELP = "copy topics between clusters"
EXAMPLE = """examples:
  tidelog mirror --from a:9092 --from b:9092 --to c:9092 --include 'orders|page.*' --exclude 'tmp.*'
  tidelog mirror --from live=a:9092 --to c:9092 --exactly-once --groups 'billing.*'"""

_CLEAR = "\r\x1b[K"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--from",
        dest="sources",
        metavar="[NAME=]HOST:PORT",
        action="append",
        required=True,
        help="a source; several times for several",
    )
    add("--to", dest="target", metavar="HOST:PORT", required=True, help="the target")
    add("--include", metavar="PATTERN", default=".*", help="topics to copy, by whole name (.*)")
    add("--exclude", metavar="PATTERN", default="", help="topics of these to leave out")
    add("--prefix", default="", help="before the names at the target; {source} is the source's")
    add("--exactly-once", action="store_true", help="in transactions: nothing twice, ever")
    add("--groups", metavar="PATTERN", default="", help="consumer groups to take along")
    add("--acls", action="store_true", help="copy the topics' rules of access as well")
    add("--offset-header", action="store_true", help="keep each source offset in a header")
    add("--group", default="mirror", help="mirrors of one group share the work (mirror)")
    add(
        "--instance",
        default="",
        metavar="NAME",
        help="a lasting name: started again, it goes on at once",
    )
    add("--audit", metavar="TIER", default="", help="count for `tidelog audit` under this name")
    add("--audit-window", metavar="TIME", default="10m", help="length of its windows (10m)")
    add("--registry", metavar="URL", default="", help="register the schema of the counts here")
    add("--commit-interval", metavar="TIME", default="500ms", help="how often to commit (500ms)")
    add("--look-interval", metavar="TIME", default="5s", help="how often to look for changes (5s)")
    add("--session-timeout", metavar="TIME", default="10s", help="until another takes over (10s)")
    add("--buffer-mb", type=int, default=32, metavar="N", help="memory for each source (32)")
    add("--source-setting", action="append", metavar="NAME=VALUE", help="for clients of sources")
    add("--target-setting", action="append", metavar="NAME=VALUE", help="for clients of the target")
    add("--for", dest="length", metavar="TIME", help="stop after so long")
    add(
        "--every",
        metavar="TIME",
        help="how often to print (a line that stays on a terminal, else 10s)",
    )
    add("--json", action="store_true", help="print JSON, a line each time")
    _logs.add_options(parser, "warning")


def run(arguments: argparse.Namespace) -> int:
    from tidelog.cli.registry import runner
    from tidelog.mirror import MirrorOptions

    _logs.set_up(arguments)
    if arguments.audit:
        _require_avro()
    options = MirrorOptions(
        sources=tuple(arguments.sources),
        target=arguments.target,
        include=arguments.include,
        exclude=arguments.exclude,
        prefix=arguments.prefix,
        group=arguments.group,
        instance=arguments.instance,
        exactly_once=arguments.exactly_once,
        offset_header=arguments.offset_header,
        copy_acls=arguments.acls,
        groups=arguments.groups,
        audit_tier=arguments.audit,
        audit_window_ms=parse_duration(arguments.audit_window),
        audit_registry=arguments.registry,
        commit_interval_s=parse_duration(arguments.commit_interval) / 1000,
        buffer_bytes=arguments.buffer_mb * 1024 * 1024,
        look_interval_s=parse_duration(arguments.look_interval) / 1000,
        session_timeout_ms=parse_duration(arguments.session_timeout),
        source_settings=pairs("--source-setting", arguments.source_setting),
        target_settings=pairs("--target-setting", arguments.target_setting),
    )
    runner()(_mirror(options, arguments))
    return 0


async def _mirror(options: "MirrorOptions", arguments: argparse.Namespace) -> None:
    from tidelog.mirror import Mirror

    mirror = Mirror(options)
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, mirror.stop)
    if arguments.length:
        loop.call_later(parse_duration(arguments.length) / 1000, mirror.stop)
    live = sys.stdout.isatty() and not arguments.json and not arguments.every
    every_s = parse_duration(arguments.every or ("500ms" if live else "10s")) / 1000
    show = asyncio.ensure_future(_show(mirror, arguments.json, live, every_s))
    try:
        await mirror.run()
    finally:
        show.cancel()
        await asyncio.gather(show, return_exceptions=True)
        if live:
            sys.stdout.write(_CLEAR)
        _print(mirror, arguments.json)


async def _show(mirror: "Mirror", as_json: bool, live: bool, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        if live:
            sys.stdout.write(_CLEAR + "  |  ".join(mirror.lines()))
            sys.stdout.flush()
        else:
            _print(mirror, as_json)


def _print(mirror: "Mirror", as_json: bool) -> None:
    if as_json:
        print(json.dumps({"time": time.time(), "sources": mirror.metrics()}), flush=True)
    else:
        for line in mirror.lines():
            print(line, flush=True)


def _require_avro() -> None:
    try:
        import fastavro  # noqa: F401
    except ImportError:
        raise StartError("--audit needs fastavro: pip install 'tidelog[schemas]'") from None
