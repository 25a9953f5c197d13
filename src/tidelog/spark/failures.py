"""What Spark says when something fails, made short: it wraps the one sentence that matters into a hundred lines.

`reason` finds that sentence in an exception of Spark's, for commands.  `plainly` keeps the wrapping small where Spark shows it all, as in a
notebook: what we raise on purpose needs no trace of our own calls.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tidelog.errors import TidelogError

P = ParamSpec("P")
R = TypeVar("R")

_RAISED = re.compile(r"^(?P<module>(?:\w+\.)*)(?P<name>[A-Za-z_]\w*): (?P<text>.+)$", re.MULTILINE)
"""A line of a traceback that is not indented: what was raised."""
_OF_A_QUERY = re.compile(r".*?terminated with exception: ", re.DOTALL)
_STATE = re.compile(r"[ .;]*\s*SQLSTATE: \w+;?")
_CODE = re.compile(r"^\[[A-Z_.]+\] ")


def reason(error: Exception) -> str:
    """What went wrong in a sentence: what a Python traceback ends with, if there is one, else what Spark says first."""
    text = _STATE.sub("", str(error).partition("=== Streaming Query ===")[0])
    _, trace, inside = text.rpartition("Traceback (most recent call last):")
    raised = list(_RAISED.finditer(inside)) if trace else []
    if raised:
        last = raised[-1]
        ours = last["module"].startswith("tidelog.")
        return last["text"] if ours else f"{last['name']}: {last['text']}"
    text = _OF_A_QUERY.sub("", text.strip(), count=1)
    first = text.splitlines()[0] if text else type(error).__name__
    return _CODE.sub("", first)


def plainly(method: Callable[P, R]) -> Callable[P, R]:
    """For what Spark calls: an error of ours comes with its sentence, and without the calls that led to it."""
    if inspect.isgeneratorfunction(method):

        @wraps(method)
        def rows(*args: P.args, **kwargs: P.kwargs) -> Iterator[Any]:
            try:
                yield from method(*args, **kwargs)
            except TidelogError as error:
                raise error.with_traceback(None) from None

        return rows  # type: ignore[return-value]  # a generator, as the method is

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except TidelogError as error:
            raise error.with_traceback(None) from None

    return call
