"""`tidelog group`: who reads what, how far behind, and moving them.

Absent: the trend of the lag, and when retention overtakes it.
"""

import argparse
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.cli._options import add_actions, add_client_options, add_json, client_config
from tidelog.cli._output import print_json, print_table
from tidelog.cli._times import parse_time
from tidelog.errors import GroupIdNotFound, KafkaError, SettingsError
from tidelog.names import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.simple import SimpleConsumer

HELP = "show, move and delete consumer groups"
EXAMPLE = "example: tidelog group describe billing"

_LATEST, _EARLIEST = -1, -2
_HEADS = {
    "GROUP": "group",
    "TOPIC": "topic",
    "PARTITION": "partition",
    "CURRENT-OFFSET": "offset",
    "LOG-END-OFFSET": "log_end",
    "LAG": "lag",
    "LAG-SECONDS": "lag_seconds",
    "CONSUMER-ID": "member_id",
    "HOST": "host",
    "CLIENT-ID": "client_id",
}
_DEAD = "Dead"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(
        parser,
        [
            ("list", "all groups and their states", "tidelog group list"),
            ("describe", "offset, log end and lag", "tidelog group describe billing --json"),
            (
                "seek",
                "move a group that has no members",
                "tidelog group seek billing --to start --topic orders",
            ),
            (
                "delete",
                "delete groups that have no members, or their offsets of a topic",
                "tidelog group delete billing",
            ),
        ],
    )
    for name, each in actions.items():
        add_client_options(each)
        if name != "delete":
            add_json(each)
        if name != "list":
            each.add_argument("names", metavar="GROUP", nargs="*", help="a group")
            each.add_argument("--group", dest="more", action="append", help=argparse.SUPPRESS)
    seek = actions["seek"]
    where = seek.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="WHERE", help="start, end, or an offset")
    where.add_argument("--to-time", "--to-datetime", metavar="TIME", help="10m, 2026-01-31T12:00")
    where.add_argument("--shift-by", type=int, metavar="N", help="on, or back with -N")
    where.add_argument("--to-offset", dest="to", help=argparse.SUPPRESS)
    for kafka, ours in (("--to-earliest", "start"), ("--to-latest", "end")):
        where.add_argument(
            kafka, dest="to", action="store_const", const=ours, help=argparse.SUPPRESS
        )
    seek.add_argument("--dry-run", action="store_true", help="only print what would be done")
    for name in ("seek", "delete"):
        actions[name].add_argument(
            "--topic", action="append", help="only this one (all that it has offsets of)"
        )


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.admin import Admin

    with Admin(client_config(arguments)) as admin:
        _ACTIONS[arguments.action](admin, arguments)
    return 0


def _list(admin: "Admin", arguments: argparse.Namespace) -> None:
    groups = admin.list_groups()
    if arguments.json:
        print_json(
            [{"group": each.group_id, "state": each.state, "type": each.type} for each in groups]
        )
    else:
        print_table(
            ["GROUP", "STATE", "TYPE"],
            [(each.group_id, each.state or None, each.type or None) for each in groups],
        )


def _describe(admin: "Admin", arguments: argparse.Namespace) -> None:
    from tidelog.client.simple import SimpleConsumer

    described = []
    with SimpleConsumer(client_config(arguments)) as reader:
        for group in _some_groups(arguments):
            described.append(_description(admin, reader, group))
    if arguments.json:
        print_json(described)
        return
    for each in described:
        print(f"Group {each['group']}: {each['state']}, {each['member_count']} members")
        print_table(
            list(_HEADS), [[row[name] for name in _HEADS.values()] for row in each["partitions"]]
        )


def _description(admin: "Admin", reader: "SimpleConsumer", group: str) -> dict[str, Any]:
    state, members = _members(admin, group)
    committed = {tp: each.offset for tp, each in admin.group_offsets(group).items()}
    if state == _DEAD and not committed:
        raise GroupIdNotFound(f"there is no group {group!r}; `tidelog group list` prints them")
    owners = {tp: member for member in members for tp in member.assignment}
    places = sorted({*committed, *owners})
    ends = admin.list_offsets(dict.fromkeys(places, _LATEST)) if places else {}
    rows: list[dict[str, Any]] = []
    for tp in places:
        offset, end = committed.get(tp), ends[tp].offset
        owner = owners.get(tp)
        rows.append(
            {
                "group": group,
                "topic": tp.topic,
                "partition": tp.partition,
                "offset": offset,
                "log_end": end,
                "lag": None if offset is None else max(0, end - offset),
                "lag_seconds": _lag_seconds(reader, tp, offset, end),
                "member_id": owner.member_id if owner else None,
                "host": owner.host if owner else None,
                "client_id": owner.client_id if owner else None,
            }
        )
    return {"group": group, "state": state, "member_count": len(members), "partitions": rows}


def _members(admin: "Admin", group: str) -> tuple[str, tuple[Any, ...]]:
    """The state and members; of a group with the new protocol (KIP-848) the state alone, as the listing has it."""
    try:
        described = admin.describe_groups([group])[group]
        if described.state != _DEAD:
            return described.state, described.members
    except GroupIdNotFound:
        pass
    states = {each.group_id: each.state for each in admin.list_groups()}
    return states.get(group) or _DEAD, ()


def _lag_seconds(
    reader: "SimpleConsumer", tp: TopicPartition, offset: int | None, end: int
) -> float | None:
    """How long the first message that is not read has waited."""
    if offset is None:
        return None
    if offset >= end:
        return 0.0
    try:
        waiting = reader.fetch(tp.topic, tp.partition, offset, max_bytes=1)
    except KafkaError:
        return None  # retention has passed the group by, or the partition has no leader
    if not waiting:
        return None
    return round(max(0.0, time.time() - waiting[0].timestamp / 1000), 1)


def _seek(admin: "Admin", arguments: argparse.Namespace) -> None:
    moved = []
    for group in _some_groups(arguments):
        committed = {tp: each.offset for tp, each in admin.group_offsets(group).items()}
        wanted = _partitions(admin, group, committed, arguments.topic)
        targets = _targets(admin, wanted, committed, arguments)
        if not arguments.dry_run:
            admin.alter_group_offsets(group, targets)
        moved += [
            {"group": group, "topic": tp.topic, "partition": tp.partition}
            | {"before": committed.get(tp), "after": after}
            for tp, after in sorted(targets.items())
        ]
    if arguments.json:
        print_json(moved)
    else:
        print_table(
            ["GROUP", "TOPIC", "PARTITION", "BEFORE", "AFTER"],
            [list(each.values()) for each in moved],
        )


def _partitions(
    admin: "Admin",
    group: str,
    committed: Mapping[TopicPartition, int],
    topics: list[str] | None,
) -> list[TopicPartition]:
    if not topics:
        if not committed:
            raise SettingsError(f"group {group!r} has no offsets yet; name topics with --topic")
        return sorted(committed)
    return [
        TopicPartition(topic.name, each.partition)
        for topic in admin.describe_topics(topics).values()
        for each in topic.partitions
    ]


def _targets(
    admin: "Admin",
    wanted: list[TopicPartition],
    committed: Mapping[TopicPartition, int],
    arguments: argparse.Namespace,
) -> dict[TopicPartition, int]:
    """Where each partition shall go on, within what there is."""
    begins = _offsets(admin, wanted, _EARLIEST)
    ends = _offsets(admin, wanted, _LATEST)
    if arguments.to_time is not None:
        found = _offsets(admin, wanted, parse_time(arguments.to_time, int(time.time() * 1000)))
        return {tp: found[tp] if found[tp] >= 0 else ends[tp] for tp in wanted}
    if arguments.shift_by is not None:
        goals = {tp: committed[tp] + arguments.shift_by for tp in wanted if tp in committed}
    elif arguments.to in ("start", "beginning"):
        return begins
    elif arguments.to == "end":
        return ends
    elif arguments.to.isdigit():
        goals = dict.fromkeys(wanted, int(arguments.to))
    else:
        raise SettingsError(
            f"--to {arguments.to}: write start, end or an offset; times go to --to-time"
        )
    return {tp: min(max(goal, begins[tp]), ends[tp]) for tp, goal in goals.items()}


def _offsets(
    admin: "Admin", wanted: list[TopicPartition], moment: int
) -> dict[TopicPartition, int]:
    found = admin.list_offsets(dict.fromkeys(wanted, moment))
    return {tp: each.offset for tp, each in found.items()}


def _delete(admin: "Admin", arguments: argparse.Namespace) -> None:
    for group in _some_groups(arguments):
        if not arguments.topic:
            admin.delete_groups([group])
            print(f"Deleted group {group}.")
            continue
        gone = [tp for tp in admin.group_offsets(group) if tp.topic in arguments.topic]
        admin.delete_group_offsets(group, gone)
        print(f"Deleted {len(gone)} offsets of group {group}.")


def _some_groups(arguments: argparse.Namespace) -> list[str]:
    names = [*arguments.names, *(arguments.more or ())]
    if not names:
        raise SettingsError("GROUP is missing; `tidelog group list` prints them")
    return names


_ACTIONS = {"list": _list, "describe": _describe, "seek": _seek, "delete": _delete}
