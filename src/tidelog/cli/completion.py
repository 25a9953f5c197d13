"""`tidelog completion SHELL`: what makes a shell complete commands, options, topics and groups.

    source <(tidelog completion bash)                                   # or zsh; put it into ~/.bashrc, ~/.zshrc
    tidelog completion fish > ~/.config/fish/completions/tidelog.fish

The shell asks `tidelog completion words` each time, so it always knows what this version takes.  Topics and groups
come from the cluster that the variable TIDELOG_BOOTSTRAP or -b names, if it answers at once.
"""

import argparse
import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Sequence

from tidelog.cli._options import BOOTSTRAP
from tidelog.errors import TidelogError

HELP = "complete commands in bash, zsh or fish"
EXAMPLE = "example: source <(tidelog completion bash)"

_ASK = "words"
"""What the scripts call; people have no use for it."""
_ANSWER_MS = "1000"
"""Longer nobody wants to wait for a completion."""

_BASH = """\
_tidelog() {
    local IFS=$'\\n'
    COMPREPLY=($(tidelog completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o nosort -F _tidelog tidelog 2>/dev/null || complete -o default -F _tidelog tidelog
"""
_ZSH = """\
#compdef tidelog
_tidelog() {
    local -a found
    found=("${(@f)$(tidelog completion words "${(@)words[2,$CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    if (( $#found )); then compadd -a found; else _files; fi
}
if [[ $funcstack[1] == _tidelog ]]; then _tidelog "$@"; else compdef _tidelog tidelog; fi
"""
_FISH = """\
function __tidelog_words
    set -l words (commandline -opc) (commandline -ct)
    set -l found (tidelog completion words $words[2..-1] 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c tidelog -f -a '(__tidelog_words)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", choices=[*_SCRIPTS, _ASK], metavar="SHELL", help="bash, zsh or fish"
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    if arguments.shell == _ASK:
        for each in candidates(arguments.words or [""]):
            print(each)
    else:
        print(_SCRIPTS[arguments.shell], end="")
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """What the last of the words, which may be empty, can become."""
    from tidelog.cli.main import command_names, parser_for

    *before, current = words
    if not before:
        return _beginning(current, command_names())
    if before[0] not in command_names():
        return []
    parser = _walk(parser_for(before[0]), before)
    option = parser._option_string_actions.get(before[-1])
    if option is not None and option.nargs != 0:
        return _beginning(current, _values(option, before))
    if current.startswith("-"):
        shown = [each for each in parser._actions if each.help != argparse.SUPPRESS]
        names = [name for each in shown for name in each.option_strings if name.startswith("--")]
        return _beginning(current, names)
    return _beginning(
        current,
        (
            value
            for each in parser._actions
            if not each.option_strings
            for value in _values(each, before)
        ),
    )


def _walk(parser: argparse.ArgumentParser, words: Iterable[str]) -> argparse.ArgumentParser:
    """The parser of the innermost command among the words."""
    for word in words:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction) and word in action.choices:
                parser = action.choices[word]
                break
    return parser


def _values(action: argparse.Action, words: Sequence[str]) -> Iterable[str]:
    if action.choices is not None:
        return [each for each in action.choices if each != _ASK]
    for word in (action.metavar, action.dest, *action.option_strings):
        names = _NAMES.get(str(word).lstrip("-").upper())
        if names is not None:
            return names(_config(words))
    return []


def _config(words: Sequence[str]) -> dict[str, str]:
    where = os.environ.get("TIDELOG_BOOTSTRAP") or BOOTSTRAP
    for option, value in itertools.pairwise(words):
        if option in ("-b", "--bootstrap", "--bootstrap-server"):
            where = value
    times = ("request.timeout.ms", "default.api.timeout.ms", "socket.connection.setup.timeout.ms")
    return {
        "bootstrap.servers": where,
        "client.id": "tidelog-cli",
        **dict.fromkeys(times, _ANSWER_MS),
    }


def _topics(config: dict[str, str]) -> list[str]:
    from tidelog.client.admin import Admin

    with contextlib.suppress(TidelogError, OSError), Admin(config) as admin:
        return admin.list_topics()
    return []


def _groups(config: dict[str, str]) -> list[str]:
    from tidelog.client.admin import Admin

    with contextlib.suppress(TidelogError, OSError), Admin(config) as admin:
        return [each.group_id for each in admin.list_groups()]
    return []


_NAMES: dict[str, Callable[[dict[str, str]], list[str]]] = {"TOPIC": _topics, "GROUP": _groups}


def _beginning(current: str, words: Iterable[str]) -> list[str]:
    return sorted({each for each in words if each.startswith(current)})
