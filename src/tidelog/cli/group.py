"""`tidelog group`: who reads what, how far behind, and moving them."""

import argparse
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from tidelog.cli._lag import Prober, duration, forecast, trend
from tidelog.cli._options import add_actions, add_client_options, add_json, client_config
from tidelog.cli._output import Report, print_json, print_json_line, print_table
from tidelog.cli._times import parse_time
from tidelog.errors import GroupIdNotFound, SettingsError
from tidelog.lag import Verdict
from tidelog.names import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.groups import GroupDescription, MemberDescription

HELP = "show, move and delete consumer groups"
EXAMPLE = "example: tidelog group describe billing"

_LATEST = -1
_HEADS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "LAG-TIME",
    "TREND",
    "RETENTION",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)
_VERDICT = [each.name for each in fields(Verdict)]
_DEAD = "Dead"
_CLEAR = "\x1b[H\x1b[2J"


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
        add_json(each)
        if name != "list":
            each.add_argument("names", metavar="GROUP", nargs="*", help="a group")
            each.add_argument("--group", dest="more", action="append", help=argparse.SUPPRESS)
    describe = actions["describe"].add_argument
    describe("--all-groups", action="store_true", help="every group there is")
    describe("--members", action="store_true", help="what each member has, without the lag")
    describe(
        "-w",
        "--watch",
        type=float,
        nargs="?",
        const=2.0,
        metavar="SECONDS",
        help="again and again (2)",
    )
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
    for kafka in ("--execute", "--all-topics"):  # what we do anyway
        seek.add_argument(kafka, action="store_true", help=argparse.SUPPRESS)
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
    if arguments.all_groups:
        groups = [each.group_id for each in admin.list_groups()]
    else:
        groups = _some_groups(arguments)
    while True:
        described = [_description(admin, arguments, group) for group in groups]
        if arguments.watch and sys.stdout.isatty() and not arguments.json:
            print(_CLEAR, end="")
        if arguments.json:
            (print_json_line if arguments.watch else print_json)(described)
        else:
            for each in described:
                _print_group(each, members=arguments.members)
        sys.stdout.flush()
        if not arguments.watch:
            return
        time.sleep(arguments.watch)


def _description(admin: "Admin", arguments: argparse.Namespace, group: str) -> dict[str, Any]:
    from tidelog.client.simple import SimpleConsumer

    found = _found(admin, group)
    committed = {tp: each.offset for tp, each in admin.group_offsets(group).items()}
    if found is None and not committed:
        raise GroupIdNotFound(f"there is no group {group!r}; `tidelog group list` prints them")
    members = () if found is None else found.members
    with SimpleConsumer(client_config(arguments)) as reader:
        prober = Prober(admin, reader, int(time.time() * 1000))
        verdicts = {} if arguments.members else prober.verdicts(group, committed)
    return {
        "group": group,
        "state": "Empty" if found is None else found.state,
        "type": "classic" if found is None else found.type,
        "assignor": None if found is None else found.assignor or None,
        "member_count": len(members),
        "members": [
            {
                "member_id": each.member_id,
                "instance_id": each.group_instance_id,
                "client_id": each.client_id,
                "host": each.host,
                "partitions": [str(tp) for tp in each.assignment],
            }
            for each in members
        ],
        "partitions": _rows(admin, group, committed, members, verdicts),
    }


def _rows(
    admin: "Admin",
    group: str,
    committed: "Mapping[TopicPartition, int]",
    members: "Iterable[MemberDescription]",
    verdicts: "Mapping[TopicPartition, Verdict]",
) -> list[dict[str, Any]]:
    owners = {tp: member for member in members for tp in member.assignment}
    places = sorted({*committed, *owners})
    found = admin.list_offsets(dict.fromkeys(places, _LATEST), led=True) if places else {}
    ends = {tp: each.offset for tp, each in found.items()}
    rows: list[dict[str, Any]] = []
    for tp in places:
        owner, verdict = owners.get(tp), verdicts.get(tp)
        rows.append(
            {
                "group": group,
                "topic": tp.topic,
                "partition": tp.partition,
                "offset": committed.get(tp),
                "log_end": ends.get(tp),  # nobody knows that of one without a leader
                **(asdict(verdict) if verdict else dict.fromkeys(_VERDICT)),
                "member_id": owner.member_id if owner else None,
                "host": owner.host if owner else None,
                "client_id": owner.client_id if owner else None,
            }
        )
    return rows


def _print_group(group: dict[str, Any], *, members: bool) -> None:
    count = group["member_count"]
    of_kind = "" if group["type"] == "classic" else f" ({group['type']} protocol)"
    plural = "" if count == 1 else "s"
    print(f"Group {group['group']}{of_kind}: {group['state']}, {count} member{plural}")
    if members:
        print_table(
            ["CONSUMER-ID", "INSTANCE-ID", "HOST", "CLIENT-ID", "PARTITIONS"],
            [
                (m["member_id"], m["instance_id"], m["host"], m["client_id"], _list_of(m))
                for m in group["members"]
            ],
        )
        return
    print_table(_HEADS, map(_cells, group["partitions"]))


def _list_of(member: dict[str, Any]) -> str | None:
    return ",".join(member["partitions"]) or None


def _cells(row: dict[str, Any]) -> list[object]:
    words: list[str | None] = [None, None, None]
    if row["lag"] is not None:
        verdict = Verdict(**{name: row[name] for name in _VERDICT})
        words = [duration(verdict.lag_seconds), trend(verdict), forecast(verdict)]
    before = [row[name] for name in ("group", "topic", "partition", "offset", "log_end", "lag")]
    return [*before, *words, row["member_id"], row["host"], row["client_id"]]


def _found(admin: "Admin", group: str) -> "GroupDescription | None":
    """The group, None where there is none: offsets may be left of it."""
    try:
        found = admin.describe_groups([group])[group]
    except GroupIdNotFound:
        return None
    return None if found.state == _DEAD else found


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
    from tidelog.client.group_moves import Move, move_targets

    if arguments.to_time is not None:
        move = Move(time_ms=parse_time(arguments.to_time, int(time.time() * 1000)))
    elif arguments.shift_by is not None:
        move = Move(shift_by=arguments.shift_by)
    elif arguments.to in ("start", "beginning"):
        move = Move(to_start=True)
    elif arguments.to == "end":
        move = Move(to_end=True)
    elif arguments.to.isdigit():
        move = Move(offset=int(arguments.to))
    else:
        raise SettingsError(
            f"--to {arguments.to}: write start, end or an offset; times go to --to-time"
        )
    return admin.run(lambda core: move_targets(core, wanted, committed, move))


def _offsets(
    admin: "Admin", wanted: list[TopicPartition], moment: int
) -> dict[TopicPartition, int]:
    found = admin.list_offsets(dict.fromkeys(wanted, moment))
    return {tp: each.offset for tp, each in found.items()}


def _delete(admin: "Admin", arguments: argparse.Namespace) -> None:
    with Report(as_json=arguments.json) as report:
        for group in _some_groups(arguments):
            if not arguments.topic:
                admin.delete_groups([group])
                report.add(f"Deleted group {group}.", deleted=group)
                continue
            gone = [tp for tp in admin.group_offsets(group) if tp.topic in arguments.topic]
            admin.delete_group_offsets(group, gone)
            line = f"Deleted {len(gone)} offsets of group {group}."
            report.add(line, group=group, offsets=[str(tp) for tp in sorted(gone)])


def _some_groups(arguments: argparse.Namespace) -> list[str]:
    names = [*arguments.names, *(arguments.more or ())]
    if not names:
        raise SettingsError("GROUP is missing; `tidelog group list` prints them")
    return names


_ACTIONS = {"list": _list, "describe": _describe, "seek": _seek, "delete": _delete}
