"""`tidelog topic`: make, show, change and delete topics."""

import argparse
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tidelog.cli._options import (
    add_actions,
    add_client_options,
    add_json,
    add_topics,
    add_yes,
    client_config,
    confirm,
    one_topic,
    pairs,
    some_topics,
    topics_of,
)
from tidelog.cli._output import Report, print_json, print_table
from tidelog.cli._times import parse_time
from tidelog.errors import SettingsError, TopicAlreadyExists, UnknownTopicOrPartition
from tidelog.names import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin import Admin, TopicDescription

HELP = "make, show, change and delete topics"
EXAMPLE = "example: tidelog topic create orders --partitions 12"

_ALL = -1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(
        parser,
        [
            ("create", "make topics", "tidelog topic create orders -p 12 -c retention.ms=3600000"),
            ("list", "print the names of all topics", "tidelog topic list"),
            (
                "describe",
                "who leads and who has each partition",
                "tidelog topic describe orders",
            ),
            (
                "alter",
                "change settings, or the number of partitions",
                "tidelog topic alter orders -c retention.ms=1000 --delete-config segment.ms",
            ),
            ("delete", "delete topics with all their records", "tidelog topic delete orders"),
            ("add-partitions", "give a topic more", "tidelog topic add-partitions orders -n 4"),
            ("trim", "delete the oldest records", "tidelog topic trim orders --before 2d"),
        ],
    )
    for each in actions.values():
        add_client_options(each)
        add_json(each)
    for name in ("create", "describe", "alter", "delete", "add-partitions", "trim"):
        add_topics(actions[name])
    _add_create(actions["create"])
    actions["list"].add_argument("-i", "--internal", action="store_true", help="internal ones too")
    _add_describe(actions["describe"])
    _add_alter(actions["alter"])
    actions["delete"].add_argument(
        "--if-exists", action="store_true", help="a topic that is not there is no error"
    )
    for name in ("delete", "trim"):
        add_yes(actions[name])
    more = actions["add-partitions"].add_mutually_exclusive_group(required=True)
    more.add_argument("-n", "--num", type=int, metavar="N", help="so many more")
    more.add_argument("--partitions", type=int, metavar="N", help="so many in all")
    _add_trim(actions["trim"])


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.admin import Admin

    with Admin(client_config(arguments)) as admin:
        _ACTIONS[arguments.action](admin, arguments)
    return 0


def _add_create(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-p", "--partitions", type=int, default=-1, help="how many (the broker's num.partitions)")
    add("-r", "--replication-factor", type=int, default=-1, help="copies (the broker's default)")
    add("-c", "--config", action="append", metavar="NAME=VALUE", help="a setting of the topic")
    add("--if-not-exists", action="store_true", help="a topic that is there is no error")


def _create(admin: "Admin", arguments: argparse.Namespace) -> None:
    configs = pairs("--config", arguments.config)
    with Report(as_json=arguments.json) as report:
        for name in some_topics(arguments):
            try:
                admin.create_topics(
                    {name: arguments.partitions},
                    replication_factor=arguments.replication_factor,
                    configs=configs,
                )
            except TopicAlreadyExists:
                if not arguments.if_not_exists:
                    raise
                continue
            report.add(f"Created topic {name}.", created=name)


def _list(admin: "Admin", arguments: argparse.Namespace) -> None:
    names = admin.list_topics(internal=arguments.internal)
    if arguments.json:
        print_json(names)
    else:
        for name in names:
            print(name)


def _add_describe(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--offsets", action="store_true", help="where each partition begins and ends, too")
    add(
        "--under-replicated-partitions",
        action="store_true",
        help="only partitions that some replica has not all of",
    )


def _describe(admin: "Admin", arguments: argparse.Namespace) -> None:
    described = []
    for topic in admin.describe_topics(topics_of(arguments) or admin.list_topics()).values():
        configs = {
            each.name: each.value
            for each in admin.describe_topic_configs(topic.name).values()
            if not each.is_default
        }
        marks = admin.watermarks(topic.name, led=True) if arguments.offsets else {}
        described.append(_as_json(topic, configs, marks, arguments.under_replicated_partitions))
    if arguments.json:
        print_json(described)
        return
    for each in described:
        if each["partitions"] or not arguments.under_replicated_partitions:
            _print_topic(each)


def _as_json(
    topic: "TopicDescription",
    configs: dict[str, str | None],
    marks: dict[TopicPartition, tuple[int, int]],
    only_behind: bool,
) -> dict[str, Any]:
    partitions = []
    for each in topic.partitions:
        if only_behind and len(each.isr) == len(each.replicas):
            continue
        begin_end = marks.get(TopicPartition(topic.name, each.partition))
        places = dict(zip(("begin", "end"), begin_end, strict=True)) if begin_end else {}
        partitions.append({**asdict(each), **places})
    return {
        "name": topic.name,
        "id": urlsafe_b64encode(topic.id.bytes).decode().rstrip("="),  # as Kafka writes it
        "partition_count": len(topic.partitions),
        "replication_factor": len(topic.partitions[0].replicas) if topic.partitions else 0,
        "configs": configs,
        "partitions": partitions,
    }


def _print_topic(topic: dict[str, Any]) -> None:
    """The lines that Kafka's own tool prints."""
    configs = ",".join(f"{name}={value}" for name, value in sorted(topic["configs"].items()))
    name = topic["name"]
    print(
        f"Topic: {name}\tTopicId: {topic['id']}\tPartitionCount: {topic['partition_count']}"
        f"\tReplicationFactor: {topic['replication_factor']}\tConfigs: {configs}"
    )
    for each in topic["partitions"]:
        leader = each["leader"] if each["leader"] >= 0 else "none"
        line = (
            f"\tTopic: {name}\tPartition: {each['partition']}\tLeader: {leader}"
            f"\tReplicas: {_joined(each['replicas'])}\tIsr: {_joined(each['isr'])}"
        )
        print(line + (f"\tBegin: {each['begin']}\tEnd: {each['end']}" if "begin" in each else ""))


def _add_alter(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--partitions", type=int, metavar="N", help="how many partitions it shall have, in all")
    add("-c", "--config", action="append", metavar="NAME=VALUE", help="set a setting")
    add(
        "--delete-config",
        "--deleteConfig",
        action="append",
        metavar="NAME",
        help="take a setting back to its default",
    )


def _alter(admin: "Admin", arguments: argparse.Namespace) -> None:
    changes: dict[str, str | None] = {**pairs("--config", arguments.config)}
    changes |= dict.fromkeys(arguments.delete_config or ())
    if not changes and arguments.partitions is None:
        raise SettingsError("nothing to alter; give --config, --delete-config or --partitions")
    with Report(as_json=arguments.json) as report:
        for name in some_topics(arguments):
            if changes:
                admin.alter_topic_configs(name, changes)
            if arguments.partitions is not None:
                admin.add_partitions(name, arguments.partitions)
            report.add(f"Altered topic {name}.", altered=name)


def _delete(admin: "Admin", arguments: argparse.Namespace) -> None:
    names = some_topics(arguments)
    what = f"topic {names[0]}" if len(names) == 1 else f"{len(names)} topics ({', '.join(names)})"
    if not confirm(f"Delete {what} with all records?", arguments):
        raise SettingsError("nothing was deleted; y or --yes does it")
    with Report(as_json=arguments.json) as report:
        for name in names:
            try:
                admin.delete_topics([name])
            except UnknownTopicOrPartition:
                if not arguments.if_exists:
                    raise
                continue
            report.add(f"Deleted topic {name}.", deleted=name)


def _add_partitions(admin: "Admin", arguments: argparse.Namespace) -> None:
    name = one_topic(arguments)
    total = arguments.partitions
    if total is None:
        total = len(admin.describe_topics([name])[name].partitions) + arguments.num
    admin.add_partitions(name, total)
    with Report(as_json=arguments.json) as report:
        report.add(f"Topic {name} has {total} partitions.", topic=name, partitions=total)


def _add_trim(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--offset", type=int, help="delete what is before this offset")
    where.add_argument("--before", metavar="TIME", help="delete what is older (2d, 2026-01-31)")
    where.add_argument("--all", action="store_true", help="delete all that there is")
    parser.add_argument("--partition", type=int, action="append", help="only this one")


def _trim(admin: "Admin", arguments: argparse.Namespace) -> None:
    name = one_topic(arguments)
    parts = [each.partition for each in admin.describe_topics([name])[name].partitions]
    chosen = arguments.partition or parts
    for each in chosen:
        if each not in parts:
            raise SettingsError(f"--partition {each}: {name} has 0 to {len(parts) - 1}")
    wanted = [TopicPartition(name, each) for each in chosen]
    before: dict[TopicPartition, int]
    if arguments.before is not None:
        moment = parse_time(arguments.before, int(time.time() * 1000))
        found = admin.list_offsets(dict.fromkeys(wanted, moment))
        # Where nothing is that young, all is older.
        before = {tp: each.offset if each.offset >= 0 else _ALL for tp, each in found.items()}
    elif arguments.all:
        before = dict.fromkeys(wanted, _ALL)
    else:
        marks = admin.watermarks(name, led=True)
        before = {
            tp: arguments.offset
            for tp in wanted
            if tp not in marks or marks[tp][0] < arguments.offset
        }
    if arguments.all and not confirm(f"Delete all records of topic {name}?", arguments):
        raise SettingsError("nothing was deleted; y or --yes does it")
    begins = sorted(admin.delete_records(before).items())
    rows = [(tp.topic, tp.partition, begin) for tp, begin in begins]
    if arguments.json:
        print_json([dict(zip(("topic", "partition", "begin"), row, strict=True)) for row in rows])
    else:
        print_table(["TOPIC", "PARTITION", "BEGIN"], rows)


def _joined(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


_ACTIONS = {
    "create": _create,
    "list": _list,
    "describe": _describe,
    "alter": _alter,
    "delete": _delete,
    "add-partitions": _add_partitions,
    "trim": _trim,
}
