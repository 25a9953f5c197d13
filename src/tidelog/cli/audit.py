"""Compare what every tier has counted: producers, clusters, mirrors, loads.

report  who has how many of what; exit code 1 if anything is missing or there twice
wait    until a topic is complete up to a time; exit code 1 if it is not in time
watch   say it when a window is complete, and when it is not in time
count   be a tier: count what topics of a cluster hold, and publish it
"""

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli._options import (
    add_actions,
    add_client_options,
    add_json,
    add_topics,
    client_config,
    one_topic,
    some_topics,
    topics_of,
)
from tidelog.cli._output import print_json, print_json_line, print_table
from tidelog.cli._times import parse_duration, show_time
from tidelog.cli.main import FAILED
from tidelog.errors import SettingsError, StartError

if TYPE_CHECKING:
    from tidelog.audit.ledger import WindowReport
    from tidelog.audit.reading import AuditReader

HELP = "did everything arrive? compare the tiers' counts"
EXAMPLE = "example: tidelog audit wait orders --until 12:00 --timeout 10m"

_LOOK_S = 0.5
_ALERT_S = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(
        parser,
        [
            ("report", "what every tier has", "tidelog audit report --html audit.html"),
            (
                "wait",
                "until a topic is complete up to a time",
                "tidelog audit wait orders --until 12:00 --timeout 10m",
            ),
            ("watch", "windows as they are complete, or are not", "tidelog audit watch orders"),
            ("count", "be a tier", "tidelog audit count offline orders clicks"),
        ],
    )
    for name in ("report", "wait", "watch"):
        made = actions[name]
        add_topics(made)
        add_client_options(made)
        made.add_argument(
            "--tiers",
            metavar="A,B",
            help="tiers to compare, the first with the others (all, with producer first)",
        )
        made.add_argument(
            "--grace", metavar="TIME", default="1m", help="a window's time after its end (1m)"
        )
    for name in ("report", "watch"):
        add_json(actions[name])
    actions["report"].add_argument("--html", metavar="FILE", help="write a page with charts")
    actions["report"].add_argument("--since", metavar="TIME", help="only windows from here on")
    wait = actions["wait"].add_argument
    wait("--until", metavar="TIME", required=True, help="12:00, 2026-01-31T12:00, 5m (ago), now")
    wait("--timeout", metavar="TIME", default="10m", help="give up after so long (10m)")
    watch = actions["watch"].add_argument
    watch("--for", dest="length", metavar="TIME", help="end after so long")
    watch(
        "--alert",
        metavar="COMMAND",
        help="run this for each window that is not complete in time, with the window as JSON on its input",
    )
    count = actions["count"]
    count.add_argument("tier", metavar="TIER", help="the name of the tier")
    add_topics(count, "a topic, or a pattern of names")
    add_client_options(count)
    count.add_argument("--window", metavar="TIME", default="10m", help="length of a window (10m)")
    count.add_argument("--every", metavar="TIME", default="1s", help="how often to publish (1s)")
    count.add_argument("--registry", metavar="URL", help="register the schema of the counts here")
    count.add_argument("--for", dest="length", metavar="TIME", help="end after so long")


def run(arguments: argparse.Namespace) -> int:
    try:
        import fastavro  # noqa: F401
    except ImportError:
        raise StartError("the audit needs fastavro: pip install 'tidelog[schemas]'") from None
    if arguments.action == "count":
        return _count(arguments)
    from tidelog.audit.ledger import Ledger
    from tidelog.audit.reading import AuditReader

    ledger = Ledger(grace_ms=parse_duration(arguments.grace))
    with AuditReader(client_config(arguments), ledger) as reader:
        actions = {"report": _report, "wait": _wait, "watch": _watch}
        return actions[arguments.action](reader, arguments)


def _report(reader: "AuditReader", arguments: argparse.Namespace) -> int:
    from tidelog.audit import html
    from tidelog.audit.ledger import INCOMPLETE
    from tidelog.audit.reading import moment

    reader.catch_up()
    ledger, now = reader.ledger, _now()
    tiers = _tiers(reader, arguments)
    topics = topics_of(arguments) or ledger.topics
    since = moment(arguments.since, now) if arguments.since else 0
    reports = [
        each for each in ledger.report(now, topics=topics, tiers=tiers) if each.end_ms > since
    ]
    watermarks = {topic: ledger.complete_until(topic, now, tiers=tiers) for topic in topics}
    if arguments.html:
        Path(arguments.html).write_text(html.page(reports, tiers, watermarks, now))
    if arguments.json:
        windows = [asdict(each) for each in reports]
        print_json({"tiers": tiers, "windows": windows, "complete_until_ms": watermarks})
    else:
        print_windows(reports, tiers)
        for topic, until in watermarks.items():
            print(_watermark(topic, until))
        if ledger.mixed_windows:
            names = ", ".join(sorted(ledger.mixed_windows))
            print(f"tiers count {names} in windows of different lengths: use one", file=sys.stderr)
    return FAILED if any(each.state == INCOMPLETE for each in reports) else 0


def _wait(reader: "AuditReader", arguments: argparse.Namespace) -> int:
    from tidelog.audit.reading import moment

    topic = one_topic(arguments)
    wanted = moment(arguments.until, _now())
    deadline = time.monotonic() + parse_duration(arguments.timeout) / 1000
    while True:
        reader.catch_up()
        tiers = _tiers(reader, arguments)
        until = reader.ledger.complete_until(topic, _now(), tiers=tiers)
        if until is not None and until >= wanted:
            print(_watermark(topic, until))
            return 0
        if time.monotonic() >= deadline:
            break
        time.sleep(_LOOK_S)
    print(_watermark(topic, until), file=sys.stderr)
    wrong = [
        each
        for each in reader.ledger.report(_now(), topics=[topic], tiers=tiers)
        if each.start_ms < wanted and (each.missing or each.duplicated)
    ]
    for each in wrong:
        print(_complaint(each), file=sys.stderr)
    return FAILED


def _watch(reader: "AuditReader", arguments: argparse.Namespace) -> int:
    """Each window when its time is over, and again when what is known of it changes."""
    from tidelog.audit.ledger import COMPLETE, OPEN

    until = parse_duration(arguments.length) / 1000 if arguments.length else float("inf")
    ends_at = time.monotonic() + until
    told: dict[tuple[str, int], object] = {}
    while time.monotonic() < ends_at:
        reader.catch_up()
        topics = topics_of(arguments) or reader.ledger.topics
        for each in reader.ledger.report(_now(), topics=topics, tiers=_tiers(reader, arguments)):
            place, known = (each.topic, each.start_ms), (each.state, each.counts)
            if each.state == OPEN or told.get(place) == known:
                continue
            told[place] = known
            if arguments.alert and each.state != COMPLETE:
                _alert(arguments.alert, each)
            if arguments.json:
                print_json_line(asdict(each))
            elif each.state == COMPLETE:
                print(f"{each.topic} {show_time(each.start_ms)}: complete, {each.expected:,}")
            else:
                print(f"ALERT {_complaint(each)}")
            sys.stdout.flush()
        time.sleep(_LOOK_S)
    return 0


def _alert(command: str, report: "WindowReport") -> None:
    """Tell somebody who does not read our lines; a command that fails is told, and does not end the watch."""
    told = {**asdict(report), "message": _complaint(report)}
    try:
        done = subprocess.run(
            command, shell=True, input=json.dumps(told), text=True, timeout=_ALERT_S, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"--alert {command}: not done after {_ALERT_S} s", file=sys.stderr)
    else:
        if done.returncode:
            print(f"--alert {command}: exit code {done.returncode}", file=sys.stderr)


def _count(arguments: argparse.Namespace) -> int:
    from tidelog.audit.tier import CountingTier
    from tidelog.cli.registry import runner

    config = client_config(arguments)
    topics = some_topics(arguments)

    async def count() -> None:
        tier = CountingTier(
            arguments.tier,
            topics,
            config,
            window_ms=parse_duration(arguments.window),
            interval_s=parse_duration(arguments.every) / 1000,
            registry=arguments.registry,
        )
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, tier.stop)
        if arguments.length:
            loop.call_later(parse_duration(arguments.length) / 1000, tier.stop)
        await tier.run()
        print(f"tier {arguments.tier} counted {tier.counted:,} messages")

    runner()(count())
    return 0


def _tiers(reader: "AuditReader", arguments: argparse.Namespace) -> list[str]:
    if not arguments.tiers:
        return reader.ledger.tiers
    named = [each.strip() for each in arguments.tiers.split(",") if each.strip()]
    if len(named) < 2:
        raise SettingsError(f"--tiers {arguments.tiers}: name at least two, with a comma between")
    return named


def print_windows(reports: "Sequence[WindowReport]", tiers: Sequence[str]) -> None:
    """A line for each window, a column for each tier."""
    rows = [
        [
            each.topic,
            show_time(each.start_ms),
            *(f"{each.counts[tier]}" for tier in tiers),
            _sum(each.missing),
            _sum(each.duplicated),
            _sum(each.late),
            each.state,
        ]
        for each in reports
    ]
    heads = ["TOPIC", "WINDOW", *(tier.upper() for tier in tiers)]
    print_table([*heads, "MISSING", "TWICE", "LATE", "STATE"], rows)


def _sum(found: dict[str, int]) -> str:
    return " ".join(f"{tier}:{number}" for tier, number in found.items()) or "-"


def _complaint(report: "WindowReport") -> str:
    parts = [f"{number:,} missing in {tier}" for tier, number in report.missing.items()]
    parts += [f"{number:,} twice in {tier}" for tier, number in report.duplicated.items()]
    return f"{report.topic} {show_time(report.start_ms)}: {', '.join(parts)} of {report.expected:,}"


def _watermark(topic: str, until: int | None) -> str:
    if until is None:
        return f"nothing has been counted of {topic}"
    return f"{topic} is complete up to {show_time(until)}"


def _now() -> int:
    return time.time_ns() // 1_000_000
