"""`tidelog reassign`: move partitions to other brokers, with Kafka's JSON files.

generate makes a plan, execute carries it out, verify says how far it is; cancel calls it off.  A plan spreads topics over the
brokers given by --to, or takes everything from the one given by --decommission, with as few moves as an even spread allows.
"""

import argparse
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli._assignments import Assignment, as_json, read_assignment, read_topics
from tidelog.cli._options import (
    add_actions,
    add_client_options,
    add_topics,
    client_config,
    topics_of,
)
from tidelog.cli._progress import Progress
from tidelog.cluster.balancing import spread
from tidelog.cluster.placement import Site
from tidelog.errors import KafkaError, SettingsError
from tidelog.names import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.admin_replicas import Reassignment

HELP = "move partitions to other brokers"
EXAMPLE = "example: tidelog reassign generate orders --to 1,2,3 --save plan.json"

_LEADER_RATE = "leader.replication.throttled.rate"
_FOLLOWER_RATE = "follower.replication.throttled.rate"
_LEADER_REPLICAS = "leader.replication.throttled.replicas"
_FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
_LOOK_EVERY_S = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(
        parser,
        [
            ("generate", "make a plan", "tidelog reassign generate orders --to 1,2,3"),
            ("execute", "carry a plan out", "tidelog reassign execute plan.json --wait"),
            ("verify", "how far a plan is", "tidelog reassign verify plan.json"),
            ("cancel", "call moves off", "tidelog reassign cancel plan.json"),
        ],
    )
    for each in actions.values():
        add_client_options(each)
    _add_generate(actions["generate"])
    for name in ("execute", "verify", "cancel"):
        _add_file(actions[name])
    actions["execute"].add_argument(
        "--throttle", type=int, metavar="BYTES", help="at most so many bytes a second a broker"
    )
    for name in ("execute", "verify"):
        actions[name].add_argument("--wait", action="store_true", help="until everything has moved")


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.admin import Admin

    with Admin(client_config(arguments)) as admin:
        return _ACTIONS[arguments.action](admin, arguments)


def _add_generate(parser: argparse.ArgumentParser) -> None:
    add_topics(parser, "a topic to move (all)")
    add = parser.add_argument
    add(
        "--topics-to-move-json-file", dest="topics_file", metavar="FILE", help="topics, Kafka's way"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--to", metavar="IDS", help="brokers, as 1,2,3 (all)")
    where.add_argument("--decommission", type=int, metavar="ID", help="a broker that is to go")
    add("-r", "--replication-factor", type=int, metavar="N", help="copies from now on")
    add("--save", metavar="FILE", help="write the plan to a file, too")


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="the plan")
    parser.add_argument("--reassignment-json-file", dest="kafkas_file", help=argparse.SUPPRESS)


def _plan_of(arguments: argparse.Namespace) -> Assignment:
    path = arguments.file or arguments.kafkas_file
    if path is None:
        raise SettingsError("FILE is missing: the plan that generate has made")
    return read_assignment(path)


# ------------------------------------------------------------------ generate


def _generate(admin: "Admin", arguments: argparse.Namespace) -> int:
    wanted = topics_of(arguments) or None
    if arguments.topics_file:
        wanted = [*(wanted or ()), *read_topics(arguments.topics_file)]
    present = _present(admin, wanted)
    sites = _sites(admin, arguments)
    factor = arguments.replication_factor
    _check_room(present, sites, factor, arguments.decommission)
    plan = spread(present, sites, factor)
    leaving = arguments.decommission
    proposed = {
        where: replicas
        for where, replicas in plan.items()
        if leaving is None or leaving in present[where]  # the rest has only been counted
    }
    current = {where: present[where] for where in proposed}
    print("Current partition replica assignment")
    print(as_json(current))
    print()
    print("Proposed partition reassignment configuration")
    print(as_json(proposed))
    if arguments.save:
        Path(arguments.save).write_text(as_json(proposed) + "\n")
    return 0


def _present(admin: "Admin", topics: Iterable[str] | None) -> Assignment:
    names = admin.list_topics(internal=True) if topics is None else list(topics)
    return {
        TopicPartition(topic.name, each.partition): each.replicas
        for topic in admin.describe_topics(names).values()
        for each in topic.partitions
    }


def _sites(admin: "Admin", arguments: argparse.Namespace) -> list[Site]:
    running = {each.id: each.rack for each in admin.describe_cluster().brokers}
    if arguments.decommission is not None:
        wanted = [each for each in running if each != arguments.decommission]
    elif arguments.to:
        wanted = _ids(arguments.to)
    else:
        wanted = list(running)
    for broker in wanted:
        if broker not in running:
            known = ", ".join(map(str, sorted(running)))
            raise SettingsError(f"there is no broker {broker}; running are {known}")
    return [Site(broker, running[broker]) for broker in wanted]


def _ids(text: str) -> list[int]:
    try:
        found = [int(each) for each in text.split(",")]
    except ValueError:
        raise SettingsError(f"--to {text} must be ids of brokers, as 1,2,3") from None
    if len(set(found)) != len(found):
        raise SettingsError(f"--to {text} names a broker twice")
    return found


def _check_room(
    present: Mapping[TopicPartition, tuple[int, ...]],
    sites: list[Site],
    factor: int | None,
    leaving: int | None,
) -> None:
    for (topic, index), replicas in present.items():
        needed = factor or len(replicas)
        if needed < 1 or needed > len(sites):
            without = "" if leaving is None else f"without broker {leaving} "
            raise SettingsError(
                f"{topic}-{index} needs {needed} brokers, and {without}there are {len(sites)}; "
                "start more, or lower --replication-factor"
            )


# ------------------------------------------------------------------ execute, verify, cancel


def _execute(admin: "Admin", arguments: argparse.Namespace) -> int:
    plan = _plan_of(arguments)
    present = _present(admin, {topic for topic, _ in plan})
    _check_known(admin, plan, present)
    print("Current partition replica assignment")
    print()
    print(as_json({where: present[where] for where in plan}))
    print()
    print("Save this to use as the FILE of another execute, to go back")
    if arguments.throttle is not None:
        _throttle(admin, plan, present, arguments.throttle)
    _raise_first(admin.reassign(plan))
    names = ",".join(f"{topic}-{index}" for topic, index in sorted(plan))
    print(f"Successfully started partition reassignment{'s' * (len(plan) > 1)} for {names}")
    if arguments.wait:
        _wait(admin, plan)
        return _verify(admin, arguments)
    return 0


def _verify(admin: "Admin", arguments: argparse.Namespace) -> int:
    plan = _plan_of(arguments)
    if arguments.wait:
        _wait(admin, plan)
    moving = admin.list_partition_reassignments()
    present = _present(admin, {topic for topic, _ in plan})
    done = True
    print("Status of partition reassignment:")
    for where, replicas in sorted(plan.items()):
        name = f"{where.topic}-{where.partition}"
        if where in moving:
            done = False
            print(f"Reassignment of partition {name} is still in progress.")
        elif present.get(where) == replicas:
            print(f"Reassignment of partition {name} is completed.")
        else:
            done = False
            print(
                f"There is no active reassignment of partition {name}, but replica set is "
                f"{_listed(present.get(where, ()))} rather than {_listed(replicas)}."
            )
    if not moving:
        _clear_throttles(admin, plan)
    return 0 if done else 1


def _cancel(admin: "Admin", arguments: argparse.Namespace) -> int:
    moving = admin.list_partition_reassignments()
    if arguments.file or arguments.kafkas_file:
        plan = _plan_of(arguments)
        moving = {where: each for where, each in moving.items() if where in plan}
    if not moving:
        print("None of the specified partition reassignments are active.")
        return 0
    _raise_first(admin.reassign(dict.fromkeys(moving)))
    names = ",".join(f"{topic}-{index}" for topic, index in sorted(moving))
    print(f"Successfully cancelled partition reassignment{'s' * (len(moving) > 1)} for: {names}")
    _clear_throttles(admin, moving)
    return 0


def _check_known(
    admin: "Admin", plan: Assignment, present: Mapping[TopicPartition, tuple[int, ...]]
) -> None:
    running = {each.id for each in admin.describe_cluster().brokers}
    for (topic, index), replicas in plan.items():
        if TopicPartition(topic, index) not in present:
            raise SettingsError(f"there is no partition {topic}-{index}")
        for broker in replicas:
            if broker not in running:
                known = ", ".join(map(str, sorted(running)))
                raise SettingsError(
                    f"{topic}-{index}: there is no broker {broker}; running are {known}"
                )


def _raise_first(outcomes: Mapping[TopicPartition, KafkaError | None]) -> None:
    for (topic, index), error in sorted(outcomes.items()):
        if error is not None:
            raise type(error)(f"{topic}-{index}: {error.message}")


def _wait(admin: "Admin", plan: Assignment) -> None:
    """Show what is left until nothing of the plan moves any more."""
    began = time.monotonic()
    first = None
    while moving := {
        where: each for where, each in admin.list_partition_reassignments().items() if where in plan
    }:
        left = _bytes_left(admin, moving)
        first = max(left, 1) if first is None else max(first, left)
        with Progress(first) as bar:
            bar.update(first - left, _outlook(left, first - left, time.monotonic() - began))
            time.sleep(_LOOK_EVERY_S)


def _bytes_left(admin: "Admin", moving: "Mapping[TopicPartition, Reassignment]") -> int:
    """What the replicas that are added still lack, measured by the largest replica."""
    sizes = admin.replica_sizes(moving)
    left = 0
    for where, each in moving.items():
        whole = max((sizes.get((broker, where), 0) for broker in each.replicas), default=0)
        left += sum(max(0, whole - sizes.get((broker, where), 0)) for broker in each.adding)
    return left


def _outlook(left: int, done: int, seconds: float) -> str:
    told = f"{left / 1e6:.1f} MB left"
    if done > 0 and seconds > 0:
        told += f", about {left * seconds / done:.0f} s"
    return told


# ------------------------------------------------------------------ throttles


def _throttle(
    admin: "Admin",
    plan: Assignment,
    present: Mapping[TopicPartition, tuple[int, ...]],
    rate: int,
) -> None:
    """Limit what the moves may use: who sends, who receives, and of which partitions (KIP-73)."""
    if rate < 1:
        raise SettingsError(f"--throttle {rate} must be at least 1")
    brokers: set[int] = set()
    senders: dict[str, list[str]] = {}
    receivers: dict[str, list[str]] = {}
    for where, replicas in plan.items():
        brokers.update(present[where], replicas)
        senders.setdefault(where.topic, []).extend(
            f"{where.partition}:{broker}" for broker in present[where]
        )
        receivers.setdefault(where.topic, []).extend(
            f"{where.partition}:{broker}" for broker in replicas if broker not in present[where]
        )
    for broker in sorted(brokers):
        admin.alter_broker_configs(broker, {_LEADER_RATE: str(rate), _FOLLOWER_RATE: str(rate)})
    for topic in senders:
        admin.alter_topic_configs(
            topic,
            {
                _LEADER_REPLICAS: ",".join(senders[topic]),
                _FOLLOWER_REPLICAS: ",".join(receivers[topic]),
            },
        )
    print(f"The inter-broker throttle limit was set to {rate} B/s")


def _clear_throttles(admin: "Admin", partitions: Iterable[TopicPartition]) -> None:
    topics = sorted({topic for topic, _ in partitions})
    throttled = [topic for topic in topics if _is_throttled(admin, topic)]
    if not throttled:
        return
    brokers = sorted(each.id for each in admin.describe_cluster().brokers)
    for broker in brokers:
        admin.alter_broker_configs(broker, {_LEADER_RATE: None, _FOLLOWER_RATE: None})
    for topic in throttled:
        admin.alter_topic_configs(topic, {_LEADER_REPLICAS: None, _FOLLOWER_REPLICAS: None})
    print()
    print(f"Clearing broker-level throttles on brokers {','.join(map(str, brokers))}")
    print(f"Clearing topic-level throttles on topics {','.join(throttled)}")


def _is_throttled(admin: "Admin", topic: str) -> bool:
    configs = admin.describe_topic_configs(topic)
    return any(
        name in configs and configs[name].value for name in (_LEADER_REPLICAS, _FOLLOWER_REPLICAS)
    )


def _listed(replicas: Iterable[int]) -> str:
    return ",".join(map(str, replicas))


_ACTIONS = {"generate": _generate, "execute": _execute, "verify": _verify, "cancel": _cancel}
