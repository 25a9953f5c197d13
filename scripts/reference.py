"""Write docs/reference from the declarations in the code; with --check, only say whether the pages are old.

Nothing in these pages is written by hand: a setting or an API that is added to the code is in them after
`make docs`, and `make check` refuses a page that is behind.
"""

import difflib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tidelog.broker import handlers
from tidelog.broker.dispatch import collect
from tidelog.broker.settings import SECTIONS
from tidelog.settings import Declared, declared, text_of

PAGES = Path(__file__).parents[1] / "docs" / "reference"
NOTE = "<!-- Written by `make docs`; do not edit. -->"
FOREVER = (1 << 63) - 1


def main(arguments: list[str]) -> int:
    pages = {"settings.md": "\n".join(settings()), "apis.md": "\n".join(apis())}
    if "--check" in arguments:
        old = [name for name, text in pages.items() if _differs(PAGES / name, text + "\n")]
        for name in old:
            print(f"docs/reference/{name} is behind the code; run: make docs", file=sys.stderr)
        return 1 if old else 0
    PAGES.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (PAGES / name).write_text(text + "\n")
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


def apis() -> Iterator[str]:
    """Every API that the broker answers, from its handlers."""
    yield from (NOTE, "# APIs", "")
    yield (
        "What a broker answers, from its handlers. *Told* is the range that ApiVersions tells, where it differs: "
        "old clients look for a low version there that they then do not use."
    )
    yield ""
    rows = []
    for key, handler in sorted(collect(handlers).items()):
        told = "" if handler.advertised == handler.versions else str(handler.advertised)
        module = sys.modules[handler.run.__module__]
        purpose = _first_line(module.__doc__).partition(": ")[2]
        rows.append((str(key), handler.name, str(handler.versions), told, purpose))
    yield from table(("key", "API", "versions", "told", "for"), rows)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _names(each: Declared) -> str:
    return "<br>".join(f"`{name}`" for name in (each.spec.name, *each.spec.also))


def _default(each: Declared) -> str:
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
