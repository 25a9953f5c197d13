"""Write docs/reference, and what ApiVersions tells, from the declarations in the code; with --check, only say what is old.

Nothing in these pages is written by hand: a setting or an API that is added to the code is in them after
`make docs`, and `make check` refuses a page that is behind.
"""

import argparse
import difflib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import MISSING
from pathlib import Path

from tidelog.broker.dispatch import Handlers
from tidelog.broker.metrics.sources import families, sources
from tidelog.broker.settings import SECTIONS
from tidelog.cli.main import command_names, parser_for
from tidelog.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from tidelog.settings import Declared, Section, allowed_by, declared, text_of

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"
OPTIONS = ROOT / "src" / "tidelog" / "client" / "options.py"
ADVERTISED = ROOT / "src" / "tidelog" / "broker" / "advertised.py"
NOTE = "<!-- Written by `make docs`; do not edit. -->"
FOREVER = (1 << 63) - 1
_EVERYWHERE = ("help", "bootstrap", "client_settings", "client_config")
"""Options that every command has, and so need not be told of each."""


def main(arguments: list[str]) -> int:
    pages = {
        PAGES / "settings.md": settings(),
        PAGES / "apis.md": apis(),
        PAGES / "commands.md": commands(),
        PAGES / "metrics.md": metrics(),
        PAGES / "client-settings.md": client_settings(),
        ADVERTISED: advertised(),
        OPTIONS: options(),
    }
    texts = {path: "\n".join(lines) + "\n" for path, lines in pages.items()}
    if "--check" in arguments:
        old = [path for path, text in texts.items() if _differs(path, text)]
        for path in old:
            print(f"{path.relative_to(ROOT)} is behind the code; run: make docs", file=sys.stderr)
        return 1 if old else 0
    PAGES.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        path.write_text(text)
    return 0


def settings() -> Iterator[str]:
    """Every setting, by the section that declares it."""
    yield from (NOTE, "# Settings", "")
    yield (
        "Kafka's names, in `server.properties` or as `-X name=value`. *Topic* is the name under which a topic may "
        "have its own value; *dynamic* settings change without a restart (`IncrementalAlterConfigs`)."
    )
    for section in SECTIONS.values():
        yield from ("", f"## {_first_line(section.__doc__)}", "")
        rows = (
            (_names(each), _default(each), _topic(each), each.spec.doc)
            for each in declared(section)
        )
        yield from table(("setting", "default", "topic", "meaning"), rows)


def client_settings() -> Iterator[str]:
    """Every setting of the clients, by the section that declares it."""
    yield from (NOTE, "# Settings of the clients", "")
    yield (
        "Keywords of `Producer`, `Consumer`, `SimpleConsumer` and `Admin` in snake_case (`linger_ms=20`), or Kafka's names in a mapping; "
        "[Python clients](../guide/clients.md) says how they are used. Other clients' names of the same setting are understood."
    )
    for section, mine in _own_settings():
        yield from ("", f"## {_first_line(section.__doc__)}", "")
        rows = (
            (f"`{keyword(each)}`", _names(each), _default(each), each.spec.doc) for each in mine
        )
        yield from table(("keyword", "names", "default", "meaning"), rows)


def options() -> Iterator[str]:
    """A module that has the clients' settings as typed keywords."""
    yield '"""The clients\' settings as typed keywords, from their declarations; written by `make docs`, do not edit.'
    yield ""
    yield "`help(ProducerOptions)` lists what a `Producer` takes beside its own arguments; Kafka's names are in docs/reference."
    yield '"""'
    yield ""
    yield "from collections.abc import Sequence"
    yield "from typing import Literal, TypedDict"
    yield ""
    yield "from tidelog.client.tokens import TokenProvider"
    yield ""
    for _, mine in _own_settings():
        for each in mine:
            yield from _alias(each)
    for section, mine in _own_settings():
        name = section.__name__.replace("Settings", "Options")
        base = "TypedDict" if section is ClientSettings else "ClientOptions"
        yield from ("", "", f"class {name}({base}, total=False):")
        yield f'    """{_first_line(section.__doc__)}.'
        yield ""
        for each in mine:
            default = "" if each.default is MISSING else f" ({text_of(each.default) or 'none'})"
            yield f"    {keyword(each)}: {' '.join(each.spec.doc.split())}{default}"
        yield from ('    """', "")
        yield from (f"    {keyword(each)}: {_annotation(each)}" for each in mine)


def keyword(each: Declared) -> str:
    """The name under which a client takes it."""
    return each.spec.name.replace(".", "_")


def _own_settings() -> Iterator[tuple[type[Section], list[Declared]]]:
    """The clients' sections, each with what it adds to what all have."""
    shared = {each.spec.name for each in declared(ClientSettings)}
    yield ClientSettings, list(declared(ClientSettings))
    for section in (ProducerSettings, ConsumerSettings):
        yield section, [each for each in declared(section) if each.spec.name not in shared]


def _alias(each: Declared) -> Iterator[str]:
    """The words that it may be, as a type."""
    words = allowed_by(each.spec.check)
    if not words or each.kind is not str:
        return
    values = [f'"{word}"' for word in words]
    values += [word for word in words if word.lstrip("-").isdigit()]
    line = f"{_alias_name(each)} = Literal[{', '.join(values)}]"
    if len(line) <= 100:
        yield line
    else:
        yield from (f"{_alias_name(each)} = Literal[", *(f"    {value}," for value in values), "]")


def _alias_name(each: Declared) -> str:
    return "".join(part.capitalize() for part in each.spec.name.split("."))


def _annotation(each: Declared) -> str:
    if each.kind is str and allowed_by(each.spec.check):
        return f"{_alias_name(each)} | None"
    known = {int: "int", float: "float", bool: "bool", str: "str"}
    known[tuple[str, ...]] = "str | Sequence[str]"
    return f"{known.get(each.kind, 'TokenProvider')} | None"


def apis() -> Iterator[str]:
    """Every API that the broker answers, from its handlers."""
    yield from (NOTE, "# APIs", "")
    yield (
        "What a broker answers, from its handlers. *Told* is the range that ApiVersions tells, where it differs: "
        "old clients look for a low version there that they then do not use."
    )
    yield ""
    rows = []
    for handler in Handlers():
        told = "" if handler.advertised == handler.versions else str(handler.advertised)
        module = sys.modules[handler.run.__module__]
        purpose = _first_line(module.__doc__).partition(": ")[2]
        rows.append((str(handler.api_key), handler.name, str(handler.versions), told, purpose))
    yield from table(("key", "API", "versions", "told", "for"), rows)


def advertised() -> Iterator[str]:
    """A module that says which versions the handlers tell of."""
    yield '"""The versions of each API that ApiVersions tells, from the handlers; written by `make docs`, do not edit.'
    yield ""
    yield "A client's first question is not to wait until every handler is imported."
    yield '"""'
    yield from ("", "ADVERTISED = {")
    for handler in Handlers():
        first, last = handler.advertised
        yield f"    {handler.api_key}: ({first}, {last}),  # {handler.name}"
    yield "}"


def metrics() -> Iterator[str]:
    """Every metric, by the source that finds it."""
    yield from (NOTE, "# Metrics", "")
    yield (
        "What a broker tells at `/metrics`, from the code that finds it; the [guide](../guide/monitoring.md) says what to make of it. "
        "A summary also has `_count` and `_sum`, a histogram `_bucket`, `_count` and `_sum`."
    )
    for source in sources():
        title, _, more = (source.__doc__ or "").strip().partition("\n")
        yield from ("", f"## {title.rstrip('.')}", "")
        if more.strip():
            yield from (" ".join(more.split()), "")
        rows = (
            (f"`{each.name}`", each.kind, ", ".join(each.labels), each.help)
            for each in families(source)
        )
        yield from table(("metric", "kind", "labels", "meaning"), rows)


def commands() -> Iterator[str]:
    """Every command, its actions and their options, from their parsers."""
    yield from (NOTE, "# Commands", "")
    yield (
        "What `tidelog COMMAND --help` prints. Options that are only there because Kafka's tools have them are left out; "
        "the [guide](../guide/commands.md) shows how commands are used. Whatever talks to a cluster takes `-b HOST:PORT`, "
        "`-X NAME=VALUE` and `--client-config FILE`."
    )
    for name in command_names():
        yield from _command(f"tidelog {name}", parser_for(name), "##")


def _command(name: str, parser: argparse.ArgumentParser, level: str) -> Iterator[str]:
    yield from ("", f"{level} {name}", "")
    text = (parser.description or "").strip()
    yield text if level == "###" else _first_line(text).partition(": ")[2] or _first_line(text)
    shown = [each for each in parser._actions if each.help != argparse.SUPPRESS]
    branches = [each for each in shown if isinstance(each, argparse._SubParsersAction)]
    rows = [
        (_spelling(each), (each.help or "").replace("%%", "%"))
        for each in shown
        if each not in branches and each.dest not in _EVERYWHERE
    ]
    if rows:
        yield from ("", *table(("option", "meaning"), rows))
    for branch in branches:
        for action, inner in branch.choices.items():
            yield from _command(f"{name} {action}", inner, "###")


def _spelling(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    value = ""
    if action.nargs != 0:
        choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
        value = f" {action.metavar or choices or action.dest.upper()}"
    return "`" + ", ".join(action.option_strings) + value + "`"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _names(each: Declared) -> str:
    return "<br>".join(f"`{name}`" for name in (each.spec.name, *each.spec.also))


def _default(each: Declared) -> str:
    if each.default is MISSING:
        return "must be set"
    if each.default == FOREVER:
        return "never"
    text = text_of(each.default)
    return f"`{text}`" if text else "empty"


def _topic(each: Declared) -> str:
    name = f"`{each.spec.topic}`" if each.spec.topic else ""
    return f"{name} dynamic".strip() if each.spec.dynamic else name


def _first_line(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0].rstrip(".")


def _differs(path: Path, text: str) -> bool:
    old = path.read_text() if path.exists() else ""
    if old == text:
        return False
    sys.stderr.writelines(
        list(difflib.unified_diff(old.splitlines(True), text.splitlines(True)))[:20]
    )
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
