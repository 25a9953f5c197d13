"""The options that commands share: how the cluster is reached, and names given with or without an option.

Kafka's own option names are taken as well, where fingers know them.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

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
    parser.add_argument(
        "--client-config", metavar="FILE", help="a file of such settings, name=value a line"
    )
    for name in ("--command-property", "--consumer-property", "--producer-property"):
        parser.add_argument(name, dest="client_settings", action="append", help=argparse.SUPPRESS)
    for name in ("--command-config", "--consumer.config", "--producer.config"):
        parser.add_argument(name, dest="client_config", help=argparse.SUPPRESS)


def client_config(arguments: argparse.Namespace) -> dict[str, str]:
    """What a client is made from: the file, under `-b`, under `-X`."""
    given = _file(arguments.client_config) if arguments.client_config else {}
    where = arguments.bootstrap or os.environ.get("TIDELOG_BOOTSTRAP")
    if where or "bootstrap.servers" not in given:
        given["bootstrap.servers"] = where or BOOTSTRAP
    given.setdefault("client.id", "tidelog-cli")
    return {**given, **pairs("-X", arguments.client_settings)}


def for_any_client(config: Mapping[str, str]) -> dict[str, str]:
    """The settings that every kind of client has, of those that were meant for one kind."""
    from tidelog.client.settings import ClientSettings
    from tidelog.settings import names_of

    known = set(names_of(ClientSettings))
    return {name: value for name, value in config.items() if name in known}


def _file(path: str) -> dict[str, str]:
    from tidelog.broker import properties

    try:
        with open(path, encoding="utf-8") as file:
            return properties.parse(file.read())
    except OSError as error:
        raise SettingsError(f"--client-config {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"--client-config {path} is not UTF-8 (byte {error.start})") from None


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def add_topics(parser: argparse.ArgumentParser, help: str = "a topic") -> None:
    """Topics by position, or Kafka's way with `--topic`."""
    parser.add_argument("names", metavar="TOPIC", nargs="*", help=help)
    parser.add_argument("-t", "--topic", dest="more_names", action="append", help=argparse.SUPPRESS)


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
    """One parser for each (name, help, example); the one that is called is `arguments.action`, also by its short name."""
    made = {}
    branches = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text, example in actions:
        made[name] = branches.add_parser(
            name,
            aliases=_SHORT.get(name, ()),
            help=text,
            description=text,
            epilog=f"example: {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # an option that comes later would change what a script means
        )
        made[name].set_defaults(action=name)
    return made


_SHORT = {"list": ("ls",), "delete": ("rm",)}
"""What fingers type."""


def add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask on a terminal")


def confirm(question: str, arguments: argparse.Namespace) -> bool:
    """Whether to go on with what cannot be undone; only a person at a terminal is asked."""
    if arguments.yes or not sys.stdin.isatty():
        return True
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _missing(what: str) -> list[str]:
    raise SettingsError(f"{what} is missing; --help has an example")
