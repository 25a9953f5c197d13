"""`tidelog COMMAND …`: finds the command's module and hands over.

A command is a module of this package with three names: `HELP` (one line), `add_arguments(parser)` and
`run(arguments) -> int`, whose result is the exit code; a fourth, `EXAMPLE`, ends its help.  Only the command that is
called is imported.  Modules whose names begin with an underscore, and this one, are no commands.

Exit codes: 0 it is done; 1 it failed; 2 it was called wrongly; 130 it was interrupted.
"""

import argparse
import gc
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

import tidelog
from tidelog import cli
from tidelog.errors import SettingsError, StartError, TidelogError

FAILED = 1
WRONG_USE = 2
"""Exit code of everything that the user can put right by calling it otherwise."""
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        parsed = _parse(given)
        code = int(parsed.run(parsed))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read our output has seen enough.  What is still buffered must not be written when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except (StartError, SettingsError) as error:
        print(f"tidelog: {error}", file=sys.stderr)
        return WRONG_USE
    except (TidelogError, OSError) as error:
        print(f"tidelog: {_one_line(error)}", file=sys.stderr)
        return FAILED


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, as everything here does."""

    def error(self, message: str) -> NoReturn:
        raise StartError(f"{message}; see {self.prog} --help")


def _parse(given: Sequence[str]) -> argparse.Namespace:
    names = command_names()
    parser = Parser(
        prog="tidelog", description="The distributed log, in Python: speaks Kafka's protocol."
    )
    parser.add_argument("--version", action="version", version=f"tidelog {tidelog.__version__}")
    if not given:
        parser.error(f"say what to do: {', '.join(names)}")
    if given[0] not in names and given[0] not in parser._option_string_actions:
        what = "an option" if given[0].startswith("-") else "a command"
        known = [*names, *parser._option_string_actions]
        parser.error(f"{given[0]} is not {what} of tidelog{meant(given[0], known)}")
    commands = parser.add_subparsers(prog="tidelog", metavar="COMMAND", required=True)
    options: list[str] = []
    for name in [given[0]] if given[0] in names else names:
        command = _command(name)
        of_command = commands.add_parser(
            name,
            help=command.HELP,
            description=(command.__doc__ or "").partition("\nAbsent: ")[0],
            epilog=getattr(command, "EXAMPLE", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_arguments(of_command)
        of_command.set_defaults(run=command.run)
        options += of_command._option_string_actions
    parsed, unknown = parser.parse_known_args(given)
    if unknown:
        option = unknown[0].partition("=")[0]
        of_command.error(f"{option} is not an option of tidelog {given[0]}{meant(option, options)}")
    return parsed


def meant(word: str, known: Sequence[str]) -> str:
    """What was probably meant by a word that is not known; empty where there is no guess."""
    import difflib  # only when something is wrong

    close = difflib.get_close_matches(word, known, 1)
    return f" (did you mean {close[0]}?)" if close else ""


def command_names() -> list[str]:
    """Every command there is."""
    found = (each.name for each in pkgutil.iter_modules(cli.__path__))
    return sorted(name for name in found if name != "main" and not name.startswith("_"))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _command(name: str) -> ModuleType:
    gc.disable()  # modules are no garbage; looking for some takes a tenth of the time that importing takes
    try:
        return importlib.import_module(f"{cli.__name__}.{name}")
    finally:
        gc.enable()
