"""`tidelog acl`: who may do what.

A rule names somebody (User:alice, User:* is everybody), an operation and a resource: a topic, a group, a transactional
id or the cluster.  A deny wins over every allow.  --producer and --consumer stand for the operations that these need.
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from itertools import product
from typing import TYPE_CHECKING

from tidelog.cli._options import add_actions, add_client_options, add_json, client_config
from tidelog.cli._output import print_json, print_table
from tidelog.errors import SettingsError

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.admin_security import Acl, AclFilter

HELP = "add, list and remove access rules"
EXAMPLE = "example: tidelog acl add --principal User:alice --operation read --topic orders"

_OPERATIONS = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
)
_CLUSTER = "kafka-cluster"
_ANYWHERE = "*"

Resource = tuple[str, str]
"""Type and name."""
Grant = tuple[str, str]
"""Permission and principal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(
        parser,
        [
            (
                "add",
                "add rules",
                "tidelog acl add --principal User:alice --consumer --topic orders --group billing",
            ),
            ("list", "print rules", "tidelog acl list --topic orders"),
            ("remove", "remove rules", "tidelog acl remove --principal User:alice --topic orders"),
        ],
    )
    for each in actions.values():
        add_client_options(each)
        add_json(each)
        _add_resources(each)
        add = each.add_argument
        add("--principal", action="append", metavar="WHO", help="User:alice; User:* is everybody")
        add("--operation", action="append", type=_operation, metavar="WHAT", help=_operations())
        add("--host", action="append", metavar="ADDRESS", help="only from there")
        add("--deny", action="store_true", help="forbid it")
        for kind in ("allow", "deny"):
            add(f"--{kind}-principal", action="append", help=argparse.SUPPRESS)
            add(f"--{kind}-host", dest="host", action="append", help=argparse.SUPPRESS)
    for name in ("add", "remove"):
        add = actions[name].add_argument
        add("--producer", action="store_true", help="what a producer to --topic needs")
        add("--consumer", action="store_true", help="what a consumer of --topic in --group needs")
        add("--idempotent", action="store_true", help=argparse.SUPPRESS)  # a producer may be
        add("--force", action="store_true", help=argparse.SUPPRESS)  # nobody is asked anyway


def _add_resources(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-t", "--topic", action="append", help="a topic; * is every one")
    add("-g", "--group", action="append", help="a group")
    add("--transactional-id", action="append", metavar="ID", help="a transactional id")
    add("--cluster", action="store_true", help="the cluster")
    add(
        "--prefix",
        dest="pattern",
        action="store_const",
        const="prefixed",
        help="all whose names begin so",
    )
    add("--resource-pattern-type", dest="pattern", type=str.lower, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.admin import Admin

    if arguments.pattern not in (None, "literal", "prefixed", "match", "any"):
        raise SettingsError(f"--resource-pattern-type {arguments.pattern}: literal or prefixed")
    if arguments.action == "add":
        rules = list(_rules(arguments))
        with Admin(client_config(arguments)) as admin:
            admin.create_acls(rules)
        _print(rules, as_json=arguments.json)
        return 0
    filters = list(_filters(arguments))
    with Admin(client_config(arguments)) as admin:
        found = _found(admin, filters, remove=arguments.action == "remove")
    _print(found, as_json=arguments.json)
    return 0


def _found(admin: "Admin", filters: "list[AclFilter]", *, remove: bool) -> "list[Acl]":
    act = admin.delete_acls if remove else admin.describe_acls
    return list(dict.fromkeys(acl for each in filters for acl in act(each)))


def _rules(arguments: argparse.Namespace) -> "Iterator[Acl]":
    """Every rule that the options stand for."""
    from tidelog.client.admin_security import Acl

    grants = _grants(arguments)
    if not grants:
        raise SettingsError("say who with --principal User:NAME; --help has an example")
    wanted = _wanted(arguments)
    pattern = arguments.pattern or "literal"
    hosts = arguments.host or [_ANYWHERE]
    for (permission, who), (operation, (kind, name)), host in product(grants, wanted, hosts):
        how = "literal" if kind == "cluster" else pattern
        yield Acl(kind, name, who, operation, permission, host, how)


def _filters(arguments: argparse.Namespace) -> "Iterator[AclFilter]":
    """What `list` and `remove` look for; what is not given is any."""
    from tidelog.client.admin_security import AclFilter

    resources: list[Resource | None] = [*_resources(arguments)]
    pairs: list[tuple[str, Resource | None]]
    if getattr(arguments, "producer", False) or getattr(arguments, "consumer", False):
        pairs = [(operation, resource) for operation, resource in _wanted(arguments)]
    else:
        pairs = list(product(arguments.operation or ["any"], resources or [None]))
    grants: list[tuple[str, str | None]] = [*_grants(arguments)]
    if not grants:
        grants = [("deny" if arguments.deny else "any", None)]
    if not arguments.deny and arguments.principal:  # of both kinds, unless one was asked for
        grants = [("any" if who in arguments.principal else how, who) for how, who in grants]
    anything = grants == [("any", None)] and pairs == [("any", None)] and not arguments.host
    if arguments.action == "remove" and anything:
        raise SettingsError("say which rules: --principal, --topic, --group, --operation …")
    pattern = arguments.pattern or ("any" if arguments.action == "list" else "literal")
    for (how, who), (operation, resource), host in product(grants, pairs, arguments.host or [None]):
        kind, name = resource or ("any", None)
        each = "literal" if kind == "cluster" else "any" if resource is None else pattern
        yield AclFilter(kind, name, who, operation, how, host, each)


def _grants(arguments: argparse.Namespace) -> list[Grant]:
    plain = "deny" if arguments.deny else "allow"
    found = [(plain, who) for who in arguments.principal or ()]
    found += [("allow", who) for who in arguments.allow_principal or ()]
    return found + [("deny", who) for who in arguments.deny_principal or ()]


def _resources(arguments: argparse.Namespace) -> list[Resource]:
    found = [("topic", name) for name in arguments.topic or ()]
    found += [("group", name) for name in arguments.group or ()]
    found += [("transactional_id", name) for name in arguments.transactional_id or ()]
    return found + ([("cluster", _CLUSTER)] if arguments.cluster else [])


def _wanted(arguments: argparse.Namespace) -> list[tuple[str, Resource]]:
    """Operations and what they are done to."""
    topics = [("topic", name) for name in arguments.topic or ()]
    groups = [("group", name) for name in arguments.group or ()]
    transactions = [("transactional_id", name) for name in arguments.transactional_id or ()]
    found: list[tuple[str, Resource]] = []
    if arguments.producer:
        _needed("--producer", "--topic", topics)
        found += product(("write", "describe", "create"), topics)
        found += product(("write", "describe"), transactions)
    if arguments.consumer:
        _needed("--consumer", "--topic", topics)
        _needed("--consumer", "--group", groups)
        found += [*product(("read", "describe"), topics), *product(("read",), groups)]
    if not found or arguments.operation:
        resources = _resources(arguments)
        if not resources:
            raise SettingsError("say for what: --topic, --group, --transactional-id or --cluster")
        found += product(arguments.operation or ["all"], resources)
    return list(dict.fromkeys(found))


def _needed(option: str, other: str, given: list[Resource]) -> None:
    if not given:
        raise SettingsError(f"{option} needs {other}")


def _operation(text: str) -> str:
    """Kafka's tools take Read, ReadAll, and DescribeConfigs for describe_configs."""
    plain = "".join(f"_{each}" if each.isupper() else each for each in text).lstrip("_")
    for guess in (text, plain):
        if guess.lower().replace("-", "_") in _OPERATIONS:
            return guess.lower().replace("-", "_")
    raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(_OPERATIONS)}")


def _operations() -> str:
    return f"{', '.join(_OPERATIONS[1:])}; all of them without it"


def _print(acls: "list[Acl]", *, as_json: bool) -> None:
    ordered = sorted(
        acls, key=lambda each: (each.resource_type, each.resource_name, each.principal)
    )
    if as_json:
        print_json([asdict(each) for each in ordered])
        return
    print_table(
        ["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"],
        [
            (
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission,
            )
            for each in ordered
        ],
    )
