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
from functools import partial
from types import ModuleType
from typing import NoReturn

import tidelog
from tidelog import cli
from tidelog.errors import SettingsError, StartError, TidelogError, UnknownTopicOrPartition

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
        return 0
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

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Guess what was meant by an action that there is not."""
        choices = list(map(str, action.choices or ()))
        if isinstance(action, argparse._SubParsersAction) and value not in choices:
            there = meant(str(value), choices) or f"; there are {', '.join(choices)}"
            self.error(f"{value} is not an action of {self.prog}{there}")
        super()._check_value(action, value)


def _parse(given: Sequence[str]) -> argparse.Namespace:
    names = command_names()
    parser = Parser(
        prog="tidelog",
        description="The distributed log, in Python: speaks Kafka's protocol.",
        formatter_class=partial(argparse.HelpFormatter, max_help_position=16),
    )
    parser.add_argument("--version", action="version", version=f"tidelog {tidelog.__version__}")
    if not given:
        parser.error(f"say what to do: {', '.join(names)}")
    if given[0] not in names and given[0] not in parser._option_string_actions:
        what = "an option" if given[0].startswith("-") else "a command"
        known = [*names, *parser._option_string_actions]
        parser.error(f"{given[0]} is not {what} of tidelog{meant(given[0], known)}")
    of_command = _add_commands(parser, [given[0]] if given[0] in names else names)
    parsed, unknown = parser.parse_known_args(given)
    if unknown and hasattr(parsed, "names") and not any(each.startswith("-") for each in unknown):
        # argparse takes positional words from one place only; names may stand on both sides of an option.
        parsed.names += unknown
    elif unknown:
        option = unknown[0].partition("=")[0]
        close = meant(option, _options_of(of_command))
        of_command.error(f"{option} is not an option of tidelog {given[0]}{close}")
    return parsed


def parser_for(name: str) -> argparse.ArgumentParser:
    """The parser of a command alone."""
    return _add_commands(Parser(prog="tidelog"), [name])


def _add_commands(parser: argparse.ArgumentParser, names: Sequence[str]) -> argparse.ArgumentParser:
    """Add the parsers of commands; the last of them."""
    commands = parser.add_subparsers(prog="tidelog", metavar="COMMAND", required=True)
    for name in names:
        command = _command(name)
        made = commands.add_parser(
            name,
            help=command.HELP,
            description=(command.__doc__ or "").partition("\nAbsent: ")[0],
            epilog=getattr(command, "EXAMPLE", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_arguments(made)
        made.set_defaults(run=command.run)
    return made


def _options_of(parser: argparse.ArgumentParser) -> list[str]:
    """The options of a command and of all its actions."""
    found = list(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                found += _options_of(each)
    return found


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
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, UnknownTopicOrPartition) and "tidelog topic" not in text:
        text += (
            "; `tidelog topic list` names those that there are, `tidelog topic create` makes one"
        )
    return text


def _command(name: str) -> ModuleType:
    gc.disable()  # modules are no garbage; looking for some takes a tenth of the time that importing takes
    try:
        return importlib.import_module(f"{cli.__name__}.{name}")
    finally:
        gc.enable()
