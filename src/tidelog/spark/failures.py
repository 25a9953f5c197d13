"""What Spark says when something fails, made short: it wraps the one line that matters into a hundred others."""

import re

_SAID = re.compile(r"^\s*(?:\w+\.)*([A-Z]\w+: .+)$", re.MULTILINE)


def reason(error: Exception) -> str:
    """The last line of a traceback, if there is one, else the first line of all."""
    text = str(error)
    said = _SAID.findall(text)
    return str(said[-1]) if said else (text.splitlines() or [type(error).__name__])[0]
