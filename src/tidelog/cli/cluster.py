"""`tidelog cluster`: who there is."""

import argparse
from dataclasses import asdict

from tidelog.cli._options import add_actions, add_client_options, add_json, client_config
from tidelog.cli._output import print_json, print_table

HELP = "show the cluster and its brokers"
EXAMPLE = "example: tidelog cluster info -b 127.0.0.1:9092"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, [("info", "id, controller, brokers", "tidelog cluster info")])
    add_client_options(actions["info"])
    add_json(actions["info"])


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.admin import Admin

    with Admin(client_config(arguments)) as admin:
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
