"""`tidelog cluster`: who there is, who leads, who will not come back."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from tidelog.cli._options import (
    add_actions,
    add_client_options,
    add_json,
    add_topics,
    client_config,
    topics_of,
)
from tidelog.cli._output import print_json, print_table
from tidelog.names import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin import Admin

HELP = "show the cluster and its brokers"
EXAMPLE = "example: tidelog cluster info -b 127.0.0.1:9092"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(
        parser,
        [
            ("info", "id, controller, brokers", "tidelog cluster info"),
            ("elect", "let the preferred replicas lead", "tidelog cluster elect orders"),
            ("unregister", "forget a broker that is gone for good", "tidelog cluster unregister 3"),
        ],
    )
    for each in actions.values():
        add_client_options(each)
    add_json(actions["info"])
    add_topics(actions["elect"], "a topic (all)")
    actions["elect"].add_argument(
        "--unclean",
        action="store_true",
        help="where nobody leads: anybody who lives, though records may be lost",
    )
    actions["unregister"].add_argument("broker", type=int, metavar="ID", help="the broker")


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.admin import Admin

    with Admin(client_config(arguments)) as admin:
        return _ACTIONS[arguments.action](admin, arguments)


def _elect(admin: "Admin", arguments: argparse.Namespace) -> int:
    names = topics_of(arguments)
    partitions = None
    if names:
        partitions = [
            TopicPartition(topic.name, each.partition)
            for topic in admin.describe_topics(names).values()
            for each in topic.partitions
        ]
    failed = 0
    outcomes = admin.elect_leaders(partitions, unclean=arguments.unclean)
    for (topic, index), error in sorted(outcomes.items()):
        if error is not None:
            failed += 1
            print(f"{topic}-{index}: {error.message}")
    print(f"{len(outcomes) - failed} partition(s) have another leader now")
    return 1 if failed else 0


def _unregister(admin: "Admin", arguments: argparse.Namespace) -> int:
    admin.unregister_broker(arguments.broker)
    print(f"Broker {arguments.broker} is no longer registered.")
    return 0


def _info(admin: "Admin", arguments: argparse.Namespace) -> int:
    cluster = admin.describe_cluster()
    topics = admin.describe_topics(admin.list_topics(internal=True))
    led: dict[int, int] = {}
    for topic in topics.values():
        for each in topic.partitions:
            led[each.leader] = led.get(each.leader, 0) + 1
    if arguments.json:
        print_json(
            {
                **asdict(cluster),
                "topics": len(topics),
                "partitions": sum(led.values()),
                "brokers": [
                    {**asdict(each), "leads": led.get(each.id, 0)} for each in cluster.brokers
                ],
            }
        )
        return 0
    print(f"cluster     {cluster.id}")
    print(f"controller  {cluster.controller}")
    print(f"topics      {len(topics)} with {sum(led.values())} partitions")
    print()
    print_table(
        ["ID", "HOST", "PORT", "RACK", "LEADS"],
        [
            (each.id, each.host, each.port, each.rack, led.get(each.id, 0))
            for each in cluster.brokers
        ],
    )
    return 0


_ACTIONS = {"info": _info, "elect": _elect, "unregister": _unregister}
