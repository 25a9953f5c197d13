"""`tidelog config`: read and change the settings of topics and brokers."""

import argparse
import re
from typing import TYPE_CHECKING

from tidelog.cli._options import add_actions, add_client_options, add_json, client_config, pairs
from tidelog.cli._output import print_json, print_table
from tidelog.errors import SettingsError

if TYPE_CHECKING:
    from tidelog.client.admin import Admin, ConfigEntry

HELP = "read and change settings of topics and brokers"
EXAMPLE = """examples: tidelog config set --topic orders retention.ms=3600000
          tidelog config set --loggers 0 tidelog.cluster=debug"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(
        parser,
        [
            ("get", "print values alone", "tidelog config get --topic orders retention.ms"),
            ("set", "change settings", "tidelog config set --topic orders retention.ms=1000"),
            ("describe", "print what is not default", "tidelog config describe --broker 0 --all"),
        ],
    )
    for each in actions.values():
        add_client_options(each)
        add = each.add_argument
        add("-t", "--topic", help="of this topic")
        add("--broker", type=int, metavar="ID", help="of this broker (of the cluster without)")
        add("--loggers", type=int, metavar="ID", help="levels of what this broker logs")
        add(
            "--entity-type",
            choices=["topics", "brokers", "broker-loggers"],
            help=argparse.SUPPRESS,
        )
        add("--entity-name", help=argparse.SUPPRESS)
    actions["get"].add_argument("names", metavar="NAME", nargs="+", help="a setting")
    change = actions["set"]
    change.add_argument("changes", metavar="NAME=VALUE", nargs="*", help="a setting")
    change.add_argument("--unset", action="append", metavar="NAME", help="back to its default")
    change.add_argument("--dry-run", action="store_true", help="only check them")
    actions["describe"].add_argument("-a", "--all", action="store_true", help="defaults too")
    change.add_argument("--add-config", dest="added", help=argparse.SUPPRESS)
    change.add_argument("--delete-config", dest="removed", help=argparse.SUPPRESS)
    for each in actions.values():
        add_json(each)


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.admin import Admin

    _take_entity(arguments)
    with Admin(client_config(arguments)) as admin:
        _ACTIONS[arguments.action](admin, arguments)
    return 0


def _take_entity(arguments: argparse.Namespace) -> None:
    """What Kafka's tool calls an entity is our topic or broker."""
    if arguments.entity_type == "topics":
        arguments.topic = arguments.entity_name
    elif arguments.entity_type and arguments.entity_name:
        try:
            number = int(arguments.entity_name)
        except ValueError:
            raise SettingsError(f"--entity-name {arguments.entity_name}: give a number") from None
        setattr(arguments, "broker" if arguments.entity_type == "brokers" else "loggers", number)
    given = (arguments.topic, arguments.broker, arguments.loggers)
    if sum(each is not None for each in given) > 1:
        raise SettingsError("--topic, --broker and --loggers exclude each other")


def _get(admin: "Admin", arguments: argparse.Namespace) -> None:
    entries = _entries(admin, arguments)
    for name in arguments.names:
        if name not in entries:
            raise SettingsError(f"there is no setting {name}; `tidelog config describe --all`")
    if arguments.json:
        print_json({name: entries[name].value for name in arguments.names})
    else:
        for name in arguments.names:
            value = entries[name].value
            print("" if value is None else value)


def _set(admin: "Admin", arguments: argparse.Namespace) -> None:
    changes: dict[str, str | None] = {
        **pairs("set", arguments.changes),
        **pairs("--add-config", _by_commas(arguments.added)),
    }
    changes |= dict.fromkeys([*(arguments.unset or ()), *_by_commas(arguments.removed)])
    if not changes:
        raise SettingsError("nothing to set; give NAME=VALUE or --unset NAME")
    if arguments.topic is not None:
        admin.alter_topic_configs(arguments.topic, changes, validate_only=arguments.dry_run)
    elif arguments.loggers is not None:
        admin.alter_loggers(arguments.loggers, changes, validate_only=arguments.dry_run)
    else:
        admin.alter_broker_configs(arguments.broker, changes, validate_only=arguments.dry_run)
    if arguments.json:
        print_json({"set": changes, "dry_run": arguments.dry_run})


def _by_commas(text: str | None) -> list[str]:
    """As Kafka's tool has it: a=b,c=d, and brackets around a value that has commas itself."""
    return (
        []
        if text is None
        else [
            re.sub(r"=\[(.*)\]", r"=\1", each)
            for each in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text)
        ]
    )


def _describe(admin: "Admin", arguments: argparse.Namespace) -> None:
    entries = [
        each
        for each in sorted(_entries(admin, arguments).values(), key=lambda each: each.name)
        if arguments.all or not each.is_default
    ]
    if arguments.json:
        print_json(
            [
                {
                    "name": each.name,
                    "value": each.value,
                    "default": each.is_default,
                    "read_only": each.is_read_only,
                    "sensitive": each.is_sensitive,
                }
                for each in entries
            ]
        )
        return
    print_table(["NAME", "VALUE", "NOTES"], [(e.name, e.value, _notes(e)) for e in entries])


def _notes(entry: "ConfigEntry") -> str:
    notes = {
        "default": entry.is_default,
        "read-only": entry.is_read_only,
        "secret": entry.is_sensitive,
    }
    return ", ".join(name for name, holds in notes.items() if holds)


def _entries(admin: "Admin", arguments: argparse.Namespace) -> "dict[str, ConfigEntry]":
    if arguments.topic is not None:
        return admin.describe_topic_configs(arguments.topic)
    if arguments.loggers is not None:
        return admin.describe_loggers(arguments.loggers)
    broker = arguments.broker
    if broker is None:  # what holds for all is told by any of them
        broker = admin.describe_cluster().brokers[0].id
    return admin.describe_broker_configs(broker)


_ACTIONS = {"get": _get, "set": _set, "describe": _describe}
