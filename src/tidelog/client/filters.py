"""Tests of messages, as a text each: `key=a`, `value~err(or)?`, `value.user.id=7`, `header.source!=shop`, `time>=10m`, `offset<100`.

    =  !=   the same text, or not        ~  !~   a regular expression is found in it, or not
    <  <=  >  >=   by number, where both are numbers, else by text; a time as people type it

A field of a value or key that is JSON is named with dots.  What is not there is the empty text.
"""

import json
import operator
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tidelog.client.times import parse_time
from tidelog.errors import SettingsError

if TYPE_CHECKING:
    from tidelog.client.message import Message

Test = Callable[["Message"], bool]

_TEST = re.compile(r"\s*([a-z]+)(?:\.([^=!~<>]+?))?\s*(!=|!~|<=|>=|=|~|<|>)\s*(.*)", re.DOTALL)
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PLAIN: dict[str, Callable[["Message"], object]] = {
    "topic": lambda message: message.topic,
    "partition": lambda message: message.partition,
    "offset": lambda message: message.offset,
    "time": lambda message: message.timestamp,
}
_FIELDS = "key, value, header.NAME, time, topic, partition, offset"


def message_filter(
    texts: Iterable[str], now_ms: int, *, option: str = "--where", patterns: bool = True
) -> Test:
    """Whether a message passes all the tests; errors name the option that they were given with.

    Without `patterns` there are no regular expressions: a few characters of one can keep a server busy for hours.
    """
    tests = [_test(text, now_ms, f"{option} {text!r}", patterns) for text in texts]
    return lambda message: all(each(message) for each in tests)


def _test(text: str, now_ms: int, said: str, patterns: bool) -> Test:
    found = _TEST.fullmatch(text)
    if found is None:
        raise SettingsError(f"{said}: write FIELD=TEXT or FIELD~PATTERN with {_FIELDS}")
    name, path, order, wanted = found.groups()
    read = _reader(said, name, path)
    if order in ("~", "!~"):
        if not patterns:
            raise SettingsError(f"{said}: patterns are not taken here; use = != < <= > >=")
        try:
            pattern = re.compile(wanted)
        except re.error as error:
            raise SettingsError(f"{said}: {wanted!r} is no pattern: {error}") from None
        return lambda message: bool(pattern.search(read(message))) == (order == "~")
    if name == "time":
        wanted = str(parse_time(wanted, now_ms))
    compare = _ORDERS[order]
    if order in ("=", "!="):
        return lambda message: compare(read(message), wanted)
    return lambda message: _compared(compare, read(message), wanted)


def _compared(compare: Callable[[Any, Any], bool], left: str, right: str) -> bool:
    try:
        return compare(float(left), float(right))
    except ValueError:
        return compare(left, right)


def _reader(said: str, name: str, path: str | None) -> Callable[["Message"], str]:
    if name in ("key", "value"):
        return lambda message: _inside(getattr(message, name), path)
    if name == "header" and path:
        return lambda message: _octets(dict(message.headers).get(path))
    if name in _PLAIN and path is None:
        plain = _PLAIN[name]
        return lambda message: str(plain(message))
    raise SettingsError(f"{said}: there is no field {name!r}; there are {_FIELDS}")


def _inside(data: bytes | None, path: str | None) -> str:
    if path is None:
        return _octets(data)
    try:
        found: Any = json.loads(data or b"null")
    except ValueError:
        return ""
    for step in path.split("."):
        if isinstance(found, list) and step.isdigit() and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, dict):
            found = found.get(step)
        else:
            return ""
    if found is None:
        return ""
    return found if isinstance(found, str) else json.dumps(found)


def _octets(data: bytes | None) -> str:
    return "" if data is None else data.decode(errors="replace")
