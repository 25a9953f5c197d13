"""Read a server.properties file: Java's format, as Kafka uses it."""

import re

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)


def parse(text: str) -> dict[str, str]:
    """Settings by name; of a name given twice the last wins, as in Java."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None, "every line matches"
        found[_unescape(match[1])] = _unescape(match[2]).strip()
    return found


def _logical_lines(text: str) -> list[str]:
    """Lines without comments, joined where one ends in an odd number of backslashes."""
    lines: list[str] = []
    joining = False
    for raw in text.splitlines():
        line = raw.lstrip()
        if joining:
            lines[-1] += line
        elif not line or line[0] in "#!":
            continue
        else:
            lines.append(line)
        joining = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        if joining:
            lines[-1] = lines[-1][:-1]
    return lines


def _unescape(text: str) -> str:
    return _ESCAPED.sub(_replacement, text)


def _replacement(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)
