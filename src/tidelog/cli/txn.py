"""`tidelog txn`: which transactions there are, what they hold up, and ending those that nobody ends.

`abort ID` fences the producer and aborts what it has open.  A transaction that hangs in a partition although no coordinator
knows of it is found by `find-hanging`, and aborted there by its offset: `abort --topic orders --partition 0 --start-offset 42`.
"""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from tidelog.cli._lag import duration
from tidelog.cli._options import add_actions, add_client_options, add_json, client_config
from tidelog.cli._output import Report, print_json, print_table
from tidelog.cli._times import parse_duration, show_time
from tidelog.errors import SettingsError
from tidelog.names import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.admin_transactions import HangingTransaction, TransactionDescription

HELP = "show and abort transactions"
EXAMPLE = "example: tidelog txn list --longer-than 10m"

_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
)
_NONE = -1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(
        parser,
        [
            ("list", "transactional ids and their states", "tidelog txn list --state Ongoing"),
            ("describe", "since when, by whom, in which partitions", "tidelog txn describe pay-1"),
            ("producers", "who writes to partitions, and what is open there", _PRODUCERS),
            ("find-hanging", "what is open in partitions and unknown to its coordinator", _FIND),
            ("abort", "end a transaction, and fence its producer", "tidelog txn abort pay-1"),
        ],
    )
    for each in actions.values():
        add_client_options(each)
        add_json(each)
    add = actions["list"].add_argument
    add("--state", action="append", choices=_STATES, help="only in this one")
    add("--longer-than", metavar="TIME", help="only what has been open for so long: 30s, 10m")
    add("--duration-filter", metavar="MS", help=argparse.SUPPRESS)
    for name in ("describe", "abort"):
        add = actions[name].add_argument
        add("names", metavar="TRANSACTIONAL-ID", nargs="*", help="whose")
        add("--transactional-id", dest="more", action="append", help=argparse.SUPPRESS)
    for name in ("producers", "abort"):
        add = actions[name].add_argument
        add("--topic", metavar="TOPIC", help="of this topic", required=name == "producers")
        add("--partition", type=int, action="append", help="only this one")
    add = actions["find-hanging"].add_argument
    add("--topic", metavar="TOPIC", help="only in this topic; without, in all")
    add("--partition", type=int, action="append", help="only this one of the topic")
    add("--idle", metavar="TIME", default="15m", help=_IDLE)
    add("--max-transaction-timeout", metavar="MINUTES", help=argparse.SUPPRESS)
    actions["abort"].add_argument(
        "--start-offset", type=int, metavar="N", help="where what hangs began"
    )


_FIND = "tidelog txn find-hanging --topic orders"
_IDLE = "only what nobody has written to for so long: the brokers' transaction.max.timeout.ms, or more (15m)"
_PRODUCERS = "tidelog txn producers --topic orders --partition 0"


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.admin import Admin

    with Admin(client_config(arguments)) as admin:
        _ACTIONS[arguments.action](admin, arguments)
    return 0


def _list(admin: "Admin", arguments: argparse.Namespace) -> None:
    longer_ms = _NONE
    if arguments.longer_than is not None:
        longer_ms = parse_duration(arguments.longer_than)
    elif arguments.duration_filter is not None:
        longer_ms = parse_duration(f"{arguments.duration_filter}ms")
    found = admin.list_transactions(states=arguments.state or (), longer_than_ms=longer_ms)
    if arguments.json:
        print_json(
            [
                {
                    "transactional_id": each.transactional_id,
                    "producer_id": each.producer_id,
                    "state": each.state,
                }
                for each in found
            ]
        )
        return
    print_table(
        ["TRANSACTIONAL-ID", "PRODUCER-ID", "STATE"],
        [(each.transactional_id, each.producer_id, each.state) for each in found],
    )


def _describe(admin: "Admin", arguments: argparse.Namespace) -> None:
    found = admin.describe_transactions(_some_ids(arguments)).values()
    now_ms = int(time.time() * 1000)
    if arguments.json:
        print_json([_as_json(each, now_ms) for each in found])
        return
    for each in found:
        said = _as_json(each, now_ms)
        print(f"Transactional id {each.transactional_id}: {each.state}")
        print(f"  producer    {each.producer_id}, epoch {each.producer_epoch}")
        print(f"  timeout     {duration(each.timeout_ms / 1000)}")
        if said["open_seconds"] is not None:
            print(f"  open since  {said['start_time']}, {duration(said['open_seconds'])}")
            print(f"  partitions  {', '.join(said['partitions']) or '-'}")


def _as_json(found: "TransactionDescription", now_ms: int) -> dict[str, Any]:
    begun = found.start_time_ms >= 0
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "start_time": show_time(found.start_time_ms) if begun else None,
        "open_seconds": max(0, now_ms - found.start_time_ms) / 1000 if begun else None,
        "partitions": [str(tp) for tp in found.partitions],
    }


def _producers(admin: "Admin", arguments: argparse.Namespace) -> None:
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "last_sequence": each.last_sequence,
            "last_time": show_time(each.last_timestamp),
            "start_offset": _or_none(each.transaction_start_offset),
        }
        for tp, known in admin.describe_producers(_partitions(admin, arguments)).items()
        for each in known
    ]
    if arguments.json:
        print_json(rows)
        return
    heads = [
        "TOPIC",
        "PARTITION",
        "PRODUCER-ID",
        "EPOCH",
        "LAST-SEQUENCE",
        "LAST-TIME",
        "START-OFFSET",
    ]
    print_table(heads, [list(row.values()) for row in rows])


def _find_hanging(admin: "Admin", arguments: argparse.Namespace) -> None:
    """Print what hangs, and how to end it."""
    idle = arguments.idle
    if arguments.max_transaction_timeout is not None:
        idle = f"{arguments.max_transaction_timeout}m"
    if arguments.partition and arguments.topic is None:
        raise SettingsError("--partition is one of a topic; name it with --topic")
    if arguments.topic is not None:
        wanted = _partitions(admin, arguments)
    else:
        wanted = _led_partitions(admin)
    found = admin.find_hanging_transactions(wanted, idle_ms=parse_duration(idle))
    if arguments.json:
        print_json([_hanging_as_json(each) for each in found])
        return
    if not found:
        print(f"Nothing hangs in {len(wanted)} partitions.")
        return
    rows = [
        (
            each.partition.topic,
            each.partition.partition,
            each.producer_id,
            each.producer_epoch,
            each.start_offset,
            show_time(each.last_timestamp),
        )
        for each in found
    ]
    print_table(["TOPIC", "PARTITION", "PRODUCER-ID", "EPOCH", "START-OFFSET", "LAST-TIME"], rows)
    topic, number, start = rows[0][0], rows[0][1], rows[0][4]
    print(
        f"To end one: tidelog txn abort --topic {topic} --partition {number} --start-offset {start}"
    )


def _led_partitions(admin: "Admin") -> list[TopicPartition]:
    """Of all topics; of one that nobody leads nobody can be asked."""
    led: list[TopicPartition] = []
    for topic in admin.describe_topics(admin.list_topics(internal=True)).values():
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition)
            if each.leader >= 0:
                led.append(tp)
            else:
                print(f"{tp} has no leader; it is left out", file=sys.stderr)
    return led


def _hanging_as_json(found: "HangingTransaction") -> dict[str, Any]:
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "coordinator_epoch": found.coordinator_epoch,
        "start_offset": found.start_offset,
        "last_time": show_time(found.last_timestamp),
    }


def _abort(admin: "Admin", arguments: argparse.Namespace) -> None:
    with Report(as_json=arguments.json) as report:
        if arguments.topic is None and arguments.start_offset is None:
            for name in _some_ids(arguments):
                admin.describe_transactions(
                    [name]
                )  # one that is not there must not be made by this
                admin.fence_producers([name])
                line = f"Aborted what {name} had open, and fenced its producer."
                report.add(line, transactional_id=name)
            return
        if arguments.topic is None or arguments.start_offset is None:
            raise SettingsError("what hangs is named by --topic, --partition and --start-offset")
        if arguments.names or arguments.more:
            raise SettingsError("give a transactional id, or --topic, but not both")
        (tp, *others) = _partitions(admin, arguments)
        if others:
            raise SettingsError(f"--topic {tp.topic} has several partitions; choose --partition N")
        admin.abort_transaction(tp, arguments.start_offset)
        line = f"Aborted what began in {tp} at offset {arguments.start_offset}."
        report.add(line, partition=str(tp), start_offset=arguments.start_offset)


def _partitions(admin: "Admin", arguments: argparse.Namespace) -> list[TopicPartition]:
    topic = arguments.topic
    there = [each.partition for each in admin.describe_topics([topic])[topic].partitions]
    for each in arguments.partition or ():
        if each not in there:
            raise SettingsError(f"--partition {each}: topic {topic} has 0 to {len(there) - 1}")
    return [TopicPartition(topic, each) for each in arguments.partition or there]


def _some_ids(arguments: argparse.Namespace) -> list[str]:
    names = [*arguments.names, *(arguments.more or ())]
    if not names:
        raise SettingsError("TRANSACTIONAL-ID is missing; `tidelog txn list` prints them")
    return names


def _or_none(offset: int) -> int | None:
    return None if offset == _NONE else offset


_ACTIONS = {
    "list": _list,
    "describe": _describe,
    "producers": _producers,
    "find-hanging": _find_hanging,
    "abort": _abort,
}
