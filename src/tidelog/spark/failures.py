"""What Spark says when something fails, made short: it wraps the one line that matters into a hundred others."""

import re

_SAID = re.compile(r"^\s*(?:\w+\.)*([A-Z]\w+: .+)$", re.MULTILINE)
_OF_A_QUERY = re.compile(r".*terminated with exception: (.*?)(?: SQLSTATE: \w+)?$")


def reason(error: Exception) -> str:
    """The last line of a Python traceback, if there is one, else the first line of all."""
    text = str(error).partition("=== Streaming Query ===")[0]
    _, trace, inside = text.rpartition("Traceback (most recent call last):")
    said = _SAID.findall(inside) if trace else []
    if said:
        return str(said[-1])
    first = (text.splitlines() or [type(error).__name__])[0]
    found = _OF_A_QUERY.match(first)
    return found.group(1) if found else first
