"""The options that commands share: how the cluster is reached, and names given with or without an option.

Kafka's own option names are taken as well, where fingers know them.
"""

import argparse
import os
from collections.abc import Iterable, Sequence

from tidelog.errors import SettingsError

BOOTSTRAP = "127.0.0.1:9092"


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """`-b` and `-X`, which every command has that talks to a cluster."""
    parser.add_argument(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        "--broker-list",
        metavar="HOST:PORT",
        help=f"a broker of the cluster, or several with commas (TIDELOG_BOOTSTRAP, else {BOOTSTRAP})",
    )
    parser.add_argument(
        "-X",
        dest="client_settings",
        metavar="NAME=VALUE",
        action="append",
        help="a setting of the client, by Kafka's name",
    )


def client_config(arguments: argparse.Namespace) -> dict[str, str]:
    """What a client is made from: `-b` under `-X`."""
    where = arguments.bootstrap or os.environ.get("TIDELOG_BOOTSTRAP") or BOOTSTRAP
    return {
        "bootstrap.servers": where,
        "client.id": "tidelog-cli",
        **pairs("-X", arguments.client_settings),
    }


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def add_topics(parser: argparse.ArgumentParser, help: str = "a topic") -> None:
    """Topics by position, or Kafka's way with `--topic`."""
    parser.add_argument("names", metavar="TOPIC", nargs="*", help=help)
    parser.add_argument("--topic", dest="more_names", action="append", help=argparse.SUPPRESS)


def topics_of(arguments: argparse.Namespace) -> list[str]:
    """All topics that were named; there may be none."""
    return [*arguments.names, *(arguments.more_names or ())]


def some_topics(arguments: argparse.Namespace) -> list[str]:
    """All topics that were named, at least one."""
    return topics_of(arguments) or _missing("TOPIC")


def one_topic(arguments: argparse.Namespace) -> str:
    """The one topic that was named."""
    names = some_topics(arguments)
    if len(names) > 1:
        raise SettingsError(f"one topic is expected, not {len(names)}: {' '.join(names)}")
    return names[0]


def pairs(option: str, given: Iterable[str] | None) -> dict[str, str]:
    """What was given as `name=value`, several times or with commas between them as Kafka does it."""
    found: dict[str, str] = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise SettingsError(f"{option} {each}: write it as name=value")
        found[name.strip()] = value
    return found


def add_actions(
    parser: argparse.ArgumentParser, actions: "Sequence[tuple[str, str, str]]"
) -> dict[str, argparse.ArgumentParser]:
    """One parser for each (name, help, example); the one that is called is `arguments.action`."""
    made = {}
    branches = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text, example in actions:
        made[name] = branches.add_parser(
            name,
            help=text,
            description=text,
            epilog=f"example: {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    return made


def _missing(what: str) -> list[str]:
    raise SettingsError(f"{what} is missing; --help has an example")
