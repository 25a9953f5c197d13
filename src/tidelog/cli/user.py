"""`tidelog user`: users who log in with a password (SCRAM).

The password is asked for and not shown; scripts give it with --password-file, or in the variable TIDELOG_PASSWORD.
It is salted here: neither the broker nor anybody on the way sees it.
"""

import argparse
import getpass
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli._options import add_actions, add_client_options, add_json, client_config
from tidelog.cli._output import Report, print_json, print_table
from tidelog.errors import ResourceNotFound, SettingsError

if TYPE_CHECKING:
    from tidelog.client.admin import Admin

HELP = "add, list and delete users"
EXAMPLE = "example: tidelog user add alice"

_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(
        parser,
        [
            ("add", "make a user, or give it a new password", "tidelog user add alice"),
            ("list", "users and how they can log in", "tidelog user list"),
            ("delete", "take away the passwords of users", "tidelog user delete alice"),
        ],
    )
    for each in actions.values():
        add_client_options(each)
        add_json(each)
    for name in ("add", "delete"):
        actions[name].add_argument(
            "--mechanism",
            action="append",
            choices=_MECHANISMS,
            type=str.upper,
            help="only for this way to log in (both)",
        )
    add = actions["add"].add_argument
    add("user", metavar="USER", help="its name")
    add("--password-file", metavar="FILE", help="its first line is the password; - is stdin")
    add("--iterations", type=int, default=8192, metavar="N", help="how costly guessing is (8192)")
    actions["delete"].add_argument("users", metavar="USER", nargs="+", help="a user")


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.admin import Admin

    password = _password(arguments) if arguments.action == "add" else ""
    with Admin(client_config(arguments)) as admin:
        if arguments.action == "add":
            _add(admin, arguments, password)
        elif arguments.action == "delete":
            _delete(admin, arguments)
        else:
            _list(admin, arguments)
    return 0


def _add(admin: "Admin", arguments: argparse.Namespace, password: str) -> None:
    with Report(as_json=arguments.json) as report:
        for mechanism in arguments.mechanism or _MECHANISMS:
            admin.set_scram_password(
                arguments.user, password, mechanism=mechanism, iterations=arguments.iterations
            )
            report.add(
                f"User {arguments.user} can log in with {mechanism}",
                user=arguments.user,
                mechanism=mechanism,
            )


def _delete(admin: "Admin", arguments: argparse.Namespace) -> None:
    known = admin.describe_scram_users(arguments.users)
    with Report(as_json=arguments.json) as report:
        for user in arguments.users:
            wanted = arguments.mechanism or [each.mechanism for each in known.get(user, ())]
            if not wanted:
                raise ResourceNotFound(f"there is no user {user!r}; `tidelog user list`")
            for mechanism in wanted:
                admin.delete_scram_password(user, mechanism=mechanism)
                report.add(
                    f"User {user} cannot log in with {mechanism} any more",
                    user=user,
                    mechanism=mechanism,
                )


def _list(admin: "Admin", arguments: argparse.Namespace) -> None:
    found = admin.describe_scram_users()
    rows = [
        (user, each.mechanism, each.iterations) for user in sorted(found) for each in found[user]
    ]
    if arguments.json:
        print_json(
            [dict(zip(("user", "mechanism", "iterations"), row, strict=True)) for row in rows]
        )
    else:
        print_table(["USER", "MECHANISM", "ITERATIONS"], rows)


def _password(arguments: argparse.Namespace) -> str:
    """From where it was given; a person is asked twice."""
    found = os.environ.get("TIDELOG_PASSWORD", "")
    if arguments.password_file:
        found = _first_line(arguments.password_file)
    elif not found:
        if not sys.stdin.isatty():
            raise SettingsError(
                "there is nobody to ask for the password; give --password-file, or TIDELOG_PASSWORD"
            )
        found = getpass.getpass(f"Password of {arguments.user}: ")
        if found != getpass.getpass("Once more: "):
            raise SettingsError("the two passwords differ")
    if not found:
        raise SettingsError("the password is empty")
    return found


def _first_line(path: str) -> str:
    try:
        text = sys.stdin.readline() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"--password-file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"--password-file {path} is not UTF-8") from None
    return text.partition("\n")[0].rstrip("\r")
