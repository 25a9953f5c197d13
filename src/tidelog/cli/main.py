"""`tidelog COMMAND …`: finds the command's module and hands over.

A command is a module of this package with three names: `HELP` (one line), `add_arguments(parser)` and
`run(arguments) -> int`, whose result is the exit code; a fourth, `EXAMPLE`, ends its help.  Only the command that is
called is imported.  Modules whose names begin with an underscore, and this one, are no commands.

Exit codes: 0 it is done; 1 it failed; 2 it was called wrongly; 130 it was interrupted.
"""

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType

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
    names = command_names()
    called = [given[0]] if given and given[0] in names else names
    parser = argparse.ArgumentParser(
        prog="tidelog", description="The distributed log, in Python: speaks Kafka's protocol."
    )
    parser.add_argument("--version", action="version", version=f"tidelog {tidelog.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in called:
        command = _command(name)
        of_command = commands.add_parser(
            name,
            help=command.HELP,
            description=command.HELP,
            epilog=getattr(command, "EXAMPLE", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(of_command)
        of_command.set_defaults(run=command.run)
    parsed = parser.parse_args(given)
    try:
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


def command_names() -> list[str]:
    """Every command there is."""
    found = (each.name for each in pkgutil.iter_modules(cli.__path__))
    return sorted(name for name in found if name != "main" and not name.startswith("_"))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _command(name: str) -> ModuleType:
    return importlib.import_module(f"{cli.__name__}.{name}")
