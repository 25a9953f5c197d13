"""What commands print: tables for eyes, JSON for scripts."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Self


def print_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as need be, two spaces apart; numbers stand on the right, None is a dash."""
    cells = [["-" if cell is None else str(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [_are_numbers([row[place] for row in cells[1:]]) for place in range(len(heads))]
    for row in cells:
        line = "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        print(line.rstrip())


class Report:
    """What was done, step by step: a line each for eyes at once, one JSON list for scripts at the end."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._steps: list[dict[str, Any]] = []

    def add(self, line: str, **facts: Any) -> None:
        self._steps.append(facts)
        if not self._as_json:
            print(line, flush=True)

    def close(self) -> None:
        """Also where a later step has failed: what was done before it is done."""
        if self._as_json:
            print_json(self._steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, default=str))


def print_json_line(value: Any) -> None:
    print(json.dumps(value, default=str))


def _are_numbers(column: list[str]) -> bool:
    said = [text for text in column if text != "-"]
    return bool(said) and all(text.lstrip("-").replace(".", "", 1).isdigit() for text in said)
