"""Topic patterns of KIP-848 members, resolved by the broker in linear time.

Kafka asks for RE2 syntax because a pattern comes from a stranger: a backtracking matcher such as `re` can be made to
stop the broker.  This one walks all alternatives at once (Thompson 1968), over the characters that a topic name can
have.  It knows literals, `.`, classes, `\\d \\w \\s` and their opposites, groups, `|`, `* + ? {m,n}`, `^ $` and a
leading `(?i)`; look-around and back-references, which RE2 has not either, are refused.  Absent: Unicode and POSIX
classes, named groups, word boundaries.  Internal topics are never matched.
"""

import string
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, NoReturn

from tidelog.errors import InvalidRegularExpression
from tidelog.names import INTERNAL_TOPICS

_MAX_LENGTH = 512
_MAX_REPEAT = 1000  # as in RE2
_MAX_STATES = 5000
_MAX_DEPTH = 50

_WORD = frozenset(string.ascii_letters + string.digits + "_")
_ANY = _WORD | frozenset(".-")
"""Every character of a topic name."""
_CLASSES = {
    "d": frozenset(string.digits), "w": _WORD, "s": frozenset[str](),
    "D": _ANY - frozenset(string.digits), "W": _ANY - _WORD, "S": _ANY,
}  # fmt: skip


class _State(NamedTuple):
    """One state: eat a character of `eats`, or, where that is None, go on without (`when`: only at ^ or $)."""

    eats: frozenset[str] | None
    targets: list[int]
    when: str = ""


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_LENGTH:
            raise InvalidRegularExpression(f"the pattern is longer than {_MAX_LENGTH} characters")
        self._states: list[_State] = []
        self._accept = self._new(None, [])
        self._start = self._build(_Parser(text).parse(), self._accept)

    def fullmatch(self, name: str) -> bool:
        """Whether the whole name matches."""
        end = len(name)
        now = self._closure({self._start}, True, end == 0)
        for position, char in enumerate(name, 1):
            eaten = set()
            for index in now:
                state = self._states[index]
                if state.eats is not None and char in state.eats:
                    eaten.add(state.targets[0])
            if not eaten:
                return False
            now = self._closure(eaten, False, position == end)
        return self._accept in now

    def _closure(self, states: set[int], at_start: bool, at_end: bool) -> set[int]:
        seen, todo = set(states), list(states)
        while todo:
            state = self._states[todo.pop()]
            if state.eats is not None:
                continue
            if (state.when == "^" and not at_start) or (state.when == "$" and not at_end):
                continue
            fresh = [each for each in state.targets if each not in seen]
            seen.update(fresh)
            todo += fresh
        return seen

    def _new(self, eats: frozenset[str] | None, targets: list[int], when: str = "") -> int:
        if len(self._states) >= _MAX_STATES:
            raise InvalidRegularExpression("the pattern's repetitions make it too large")
        self._states.append(_State(eats, targets, when))
        return len(self._states) - 1

    def _build(self, node: "_Node", after: int) -> int:
        """The state that matches `node` and then goes to `after`."""
        match node:
            case _Chars(chars):
                return self._new(chars, [after])
            case _Anchor(which):
                return self._new(None, [after], which)
            case _Either(options):
                return self._new(None, [self._build(each, after) for each in options])
            case _Sequence(parts):
                for each in reversed(parts):
                    after = self._build(each, after)
                return after
            case _Repeat(inner, least, most):
                tail = after
                if most is None:
                    targets = [after]
                    tail = self._new(None, targets)
                    targets.append(self._build(inner, tail))
                else:
                    for _ in range(most - least):
                        tail = self._new(None, [self._build(inner, tail), after])
                for _ in range(least):
                    tail = self._build(inner, tail)
                return tail


class _Chars(NamedTuple):
    chars: frozenset[str]


class _Anchor(NamedTuple):
    which: str


class _Either(NamedTuple):
    options: "list[_Node]"


class _Sequence(NamedTuple):
    parts: "list[_Node]"


class _Repeat(NamedTuple):
    inner: "_Node"
    least: int
    most: int | None


_Node = _Chars | _Anchor | _Either | _Sequence | _Repeat


class _Parser:
    """Recursive descent over the pattern's text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        self._depth = 0
        self._any_case = text.startswith("(?i)")
        if self._any_case:
            self._pos = 4

    def parse(self) -> _Node:
        node = self._either()
        if self._pos < len(self._text):
            self._fail("has a ) too many")
        return node

    def _either(self) -> _Node:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else _Either(options)

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._pos < len(self._text) and self._text[self._pos] not in "|)":
            parts.append(self._repeated(self._atom()))
        return _Sequence(parts)

    def _repeated(self, node: _Node) -> _Node:
        bounds = self._bounds()
        if bounds is None:
            return node
        self._take("?")  # lazy or not, the same names match
        if self._bounds() is not None:
            self._fail("repeats a repetition")
        return _Repeat(node, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        close = self._text.find("}", self._pos)
        if not self._take("{"):
            return None
        least, comma, most = self._text[self._pos : close].partition(",")
        if close < 0 or not least.isdecimal() or (most and not most.isdecimal()):
            self._fail("has a { that is not {m}, {m,} or {m,n}")
        self._pos = close + 1
        low = int(least)
        high = (int(most) if most else None) if comma else low
        if low > _MAX_REPEAT or (high is not None and not low <= high <= _MAX_REPEAT):
            self._fail(f"repeats more than {_MAX_REPEAT} times, or backwards")
        return low, high

    def _atom(self) -> _Node:
        char = self._text[self._pos]
        self._pos += 1
        if char == "(":
            return self._group()
        if char == "[":
            return _Chars(self._class())
        if char == ".":
            return _Chars(_ANY)
        if char in "^$":
            return _Anchor(char)
        if char == "\\":
            return _Chars(self._escape())
        if char in "*+?{":
            self._fail("repeats nothing")
        return _Chars(self._literal(char))

    def _group(self) -> _Node:
        if self._text.startswith("?", self._pos) and not self._text.startswith("?:", self._pos):
            self._fail("has a group that is not ( or (?:")
        if self._take("?"):
            self._take(":")
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail("is nested too deep")
        node = self._either()
        self._depth -= 1
        if not self._take(")"):
            self._fail("has a ( too many")
        return node

    def _class(self) -> frozenset[str]:
        opposite = self._take("^")
        chars: set[str] = set()
        first = True
        while first or not self._take("]"):
            first = False
            low = self._class_member()
            if (
                len(low) == 1
                and self._text.startswith("-", self._pos)
                and not self._text.startswith("-]", self._pos)
            ):
                self._pos += 1
                high = self._class_member()
                if len(high) != 1 or high < low:
                    self._fail("has a range that is not a-z")
                chars.update(each for each in _ANY if low <= each <= high)
            elif low in ("\\d", "\\w", "\\s", "\\D", "\\W", "\\S"):
                chars |= _CLASSES[low[1]]
            else:
                chars.add(low)
        if self._any_case:
            chars |= {each.swapcase() for each in chars}
        return _ANY - chars if opposite else _ANY & chars

    def _class_member(self) -> str:
        """One character, or a class such as \\d."""
        if self._pos >= len(self._text):
            self._fail("has a [ too many")
        char = self._text[self._pos]
        self._pos += 1
        if char != "\\":
            return char
        escaped = self._escaped()
        return "\\" + escaped if escaped in _CLASSES else escaped

    def _escape(self) -> frozenset[str]:
        escaped = self._escaped()
        return _CLASSES[escaped] if escaped in _CLASSES else self._literal(escaped)

    def _escaped(self) -> str:
        if self._pos >= len(self._text):
            self._fail("ends in a \\")
        char = self._text[self._pos]
        self._pos += 1
        if char.isalnum() and char not in _CLASSES:
            self._fail(f"has \\{char}, which is not supported")
        return char

    def _literal(self, char: str) -> frozenset[str]:
        return frozenset({char, char.swapcase()} if self._any_case else {char})

    def _take(self, wanted: str) -> bool:
        if self._text.startswith(wanted, self._pos):
            self._pos += len(wanted)
            return True
        return False

    def _fail(self, what: str) -> NoReturn:
        raise InvalidRegularExpression(f"the pattern {self._text!r} {what}")


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """The pattern, ready to match whole names; raises `InvalidRegularExpression`."""
    return Pattern(text)


def matching(text: str, names: Iterable[str]) -> frozenset[str]:
    """The topics whose whole name matches."""
    pattern = compile_pattern(text)
    return frozenset(
        name for name in names if name not in INTERNAL_TOPICS and pattern.fullmatch(name)
    )
