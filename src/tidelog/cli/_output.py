"""What commands print: tables for eyes, JSON for scripts."""

import json
from collections.abc import Iterable, Sequence
from typing import Any


def print_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as need be, two spaces apart; numbers stand on the right, None is a dash."""
    cells = [["-" if cell is None else str(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [
        all(_is_number(row[place]) for row in cells[1:]) and len(cells) > 1
        for place in range(len(heads))
    ]
    for row in cells:
        line = "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        print(line.rstrip())


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, default=str))


def print_json_line(value: Any) -> None:
    print(json.dumps(value, default=str))


def _is_number(text: str) -> bool:
    return text == "-" or text.lstrip("-").replace(".", "", 1).isdigit()
