"""`tidelog quota`: how much users, clients and addresses may use.

    producer_byte_rate, consumer_byte_rate        bytes a second, of each broker
    request_percentage                            of a thread's time
    controller_mutation_rate                      partitions made or deleted a second
    connection_creation_rate                      new connections a second (--ip)

--default speaks of everybody of a kind who has no quota of his own.
"""

import argparse
from typing import TYPE_CHECKING

from tidelog.cli._options import add_actions, add_client_options, add_json, client_config, pairs
from tidelog.cli._output import print_json, print_table
from tidelog.errors import ResourceNotFound, SettingsError

if TYPE_CHECKING:
    from tidelog.client.admin import Admin

HELP = "set, list and remove quotas"
EXAMPLE = "example: tidelog quota set --user alice producer_byte_rate=1000000"

_KINDS = ("user", "client-id", "ip")

Entity = dict[str, str | None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(
        parser,
        [
            (
                "set",
                "set quotas",
                "tidelog quota set --user alice --default client-id consumer_byte_rate=1000000",
            ),
            ("list", "print quotas", "tidelog quota list --user alice"),
            ("remove", "remove quotas", "tidelog quota remove --user alice producer_byte_rate"),
        ],
    )
    for each in actions.values():
        add_client_options(each)
        add_json(each)
        add = each.add_argument
        add("--user", help="of this user")
        add("--client-id", metavar="ID", help="of clients that call themselves so")
        add("--ip", metavar="ADDRESS", help="of this address")
        add("--default", action="append", choices=_KINDS, help="of everybody else of a kind")
    actions["set"].add_argument("changes", metavar="NAME=VALUE", nargs="+", help="a quota")
    actions["remove"].add_argument("names", metavar="NAME", nargs="*", help="a quota (all)")


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.admin import Admin

    entity = _entity(arguments)
    if arguments.action != "list" and not entity:
        raise SettingsError("say whose: --user, --client-id, --ip or --default KIND")
    changes = _numbers(arguments) if arguments.action == "set" else {}
    with Admin(client_config(arguments)) as admin:
        if arguments.action == "set":
            admin.alter_client_quotas(entity, changes)
        elif arguments.action == "remove":
            _remove(admin, entity, arguments.names)
        _print(admin, entity, as_json=arguments.json)
    return 0


def _entity(arguments: argparse.Namespace) -> Entity:
    named = {kind: getattr(arguments, kind.replace("-", "_")) for kind in _KINDS}
    found: Entity = {kind: name for kind, name in named.items() if name is not None}
    for kind in arguments.default or ():
        if kind in found:
            raise SettingsError(f"--{kind} and --default {kind} exclude each other")
        found[kind] = None
    return found


def _numbers(arguments: argparse.Namespace) -> dict[str, float | None]:
    changes: dict[str, float | None] = {}
    for name, text in pairs("set", arguments.changes).items():
        try:
            changes[name] = float(text)
        except ValueError:
            raise SettingsError(f"{name}={text}: give a number") from None
    return changes


def _remove(admin: "Admin", entity: Entity, names: list[str]) -> None:
    known = dict(
        value
        for found, values in admin.describe_client_quotas(entity, strict=True)
        if found == entity
        for value in values.items()
    )
    missing = [name for name in names if name not in known]
    if missing or not known:
        raise ResourceNotFound(
            f"{_told(entity)} has no quota{f' {missing[0]}' if missing else ''}; `tidelog quota list`"
        )
    admin.alter_client_quotas(entity, dict.fromkeys(names or known))


def _print(admin: "Admin", entity: Entity, *, as_json: bool) -> None:
    found = admin.describe_client_quotas(entity)
    if as_json:
        print_json([{"entity": who, "quotas": values} for who, values in found])
        return
    rows = [
        (*(_name(who, kind) for kind in _KINDS), name, f"{value:g}")
        for who, values in found
        for name, value in values.items()
    ]
    print_table(["USER", "CLIENT-ID", "IP", "QUOTA", "VALUE"], sorted(rows, key=repr))


def _name(entity: Entity, kind: str) -> str | None:
    return (entity[kind] or "<default>") if kind in entity else None


def _told(entity: Entity) -> str:
    return ", ".join(f"{kind} {name or '<default>'}" for kind, name in entity.items())
