"""Patterns of topics (KIP-848) and of transactional ids, matched by the broker in linear time, whatever the pattern.

Kafka asks for RE2 syntax because a pattern comes from a stranger: a backtracking matcher such as `re` can be made to
stop the broker.  It knows literals, `.`, classes, `\\d \\w \\s` and their opposites, groups, `|`, `* + ? {m,n}`, `^ $` and a
leading `(?i)`; look-around and back-references, which RE2 has not either, are refused.  Absent: Unicode and POSIX
classes, named groups, word boundaries.  Internal topics are never matched.

Each character of a pattern, after its repetitions are written out, is a position; there are at most `_MAX_POSITIONS` (Glushkov's
automaton).  Where a match stands is a set of positions, kept as the bits of one integer: a step is some dozens of operations on
integers at worst, and a look into a dictionary where the step was made before.  What was found out of a name is remembered.
"""

import string
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, NoReturn

from tidelog.errors import InvalidRegularExpression
from tidelog.names import INTERNAL_TOPICS

_MAX_LENGTH = 512
_MAX_REPEAT = 1000  # as in RE2
_MAX_POSITIONS = 512
_MAX_DEPTH = 50
_PATTERNS_KEPT = 64
_NAMES_KEPT = 10_000
"""Of each pattern, and so on: what is forgotten is only found out again."""
_STEPS_KEPT = 4_000
_CHARACTERS_KEPT = 1_000


class _Chars(NamedTuple):
    """A set of characters: these, or all others."""

    chars: frozenset[str]
    others: bool = False

    def takes(self, char: str) -> bool:
        return (char in self.chars) is not self.others

    def __or__(self, more: "_Chars") -> "_Chars":
        if self.others and more.others:
            return _Chars(self.chars & more.chars, True)
        if self.others or more.others:
            inverted, plain = (self, more) if self.others else (more, self)
            return _Chars(inverted.chars - plain.chars, True)
        return _Chars(self.chars | more.chars)

    def opposite(self) -> "_Chars":
        return _Chars(self.chars, not self.others)


_NOTHING = _Chars(frozenset())
_ANY = _NOTHING.opposite()
_DIGITS = _Chars(frozenset(string.digits))
_WORD = _Chars(frozenset(string.ascii_letters + string.digits + "_"))
_SPACE = _Chars(frozenset(string.whitespace))
_CLASSES = {
    "d": _DIGITS, "w": _WORD, "s": _SPACE,
    "D": _DIGITS.opposite(), "W": _WORD.opposite(), "S": _SPACE.opposite(),
}  # fmt: skip


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


class _Part(NamedTuple):
    """What a part of the pattern is to its surroundings; sets of positions are bits.

    It makes a difference to `^` and `$` whether the part stands at the start or at the end of the name.
    """

    empty: bool
    """Whether it matches nothing at all, in the middle of a name."""
    empty_at_start: bool
    empty_at_end: bool
    empty_alone: bool
    """... where the whole name is empty."""
    first: int
    """Positions that its match can begin with."""
    first_at_start: int
    last: int
    last_at_end: int


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_LENGTH:
            raise InvalidRegularExpression(f"the pattern is longer than {_MAX_LENGTH} characters")
        self._sets: list[_Chars] = []
        """What each position takes."""
        self._follow: list[int] = []
        """The positions that can come after each."""
        self._whole = self._build(_Parser(text).parse())
        self._bytes = (len(self._sets) + 7) // 8

        # What was found out already.
        self._masks: dict[str, int] = {}
        """The positions that take a character."""
        self._after: dict[tuple[int, int], int] = {}
        """The positions after any of eight, by where these stand and which of them it is."""
        self._steps: dict[tuple[int, str], int] = {}
        self._known: dict[str, bool] = {}

    def fullmatch(self, name: str) -> bool:
        """Whether the whole name matches."""
        found = self._known.get(name)
        if found is None:
            if len(self._known) >= _NAMES_KEPT:
                self._known.clear()
            found = self._known[name] = self._match(name)
        return found

    def knows(self, name: str) -> bool:
        """Whether `fullmatch` has nothing to find out."""
        return name in self._known

    def _match(self, name: str) -> bool:
        if not name:
            return self._whole.empty_alone
        steps = self._steps
        now = self._whole.first_at_start & self._mask(name[0])
        for char in name[1:]:
            if not now:
                return False
            then = steps.get((now, char))
            if then is None:
                if len(steps) >= _STEPS_KEPT:
                    steps.clear()
                then = steps[now, char] = self._following(now) & self._mask(char)
            now = then
        return bool(now & self._whole.last_at_end)

    def _mask(self, char: str) -> int:
        found = self._masks.get(char)
        if found is None:
            if len(self._masks) >= _CHARACTERS_KEPT:
                self._masks.clear()
            found = 0
            for position, chars in enumerate(self._sets):
                if chars.takes(char):
                    found |= 1 << position
            self._masks[char] = found
        return found

    def _following(self, now: int) -> int:
        found = 0
        for at, byte in enumerate(now.to_bytes(self._bytes, "little")):
            if byte:
                after = self._after.get((at, byte))
                if after is None:
                    if len(self._after) >= _STEPS_KEPT:
                        self._after.clear()
                    after = 0
                    for position in _bits(byte):
                        after |= self._follow[8 * at + position]
                    self._after[at, byte] = after
                found |= after
        return found

    # ------------------------------------------------------------------ building

    def _build(self, node: _Node) -> _Part:
        match node:
            case _Chars():
                if len(self._sets) >= _MAX_POSITIONS:
                    raise InvalidRegularExpression("the pattern's repetitions make it too large")
                self._sets.append(node)
                self._follow.append(0)
                bit = 1 << len(self._sets) - 1
                return _Part(False, False, False, False, bit, bit, bit, bit)
            case _Anchor(which):
                start, end = which == "^", which == "$"
                return _Part(False, start, end, True, 0, 0, 0, 0)
            case _Either(options):
                found = [self._build(each) for each in options]
                return _Part(
                    any(each.empty for each in found),
                    any(each.empty_at_start for each in found),
                    any(each.empty_at_end for each in found),
                    any(each.empty_alone for each in found),
                    _union(each.first for each in found),
                    _union(each.first_at_start for each in found),
                    _union(each.last for each in found),
                    _union(each.last_at_end for each in found),
                )
            case _Sequence(parts):
                whole = _EMPTY
                for each in parts:
                    whole = self._join(whole, self._build(each))
                return whole
            case _Repeat(inner, least, most):
                whole = _EMPTY
                for _ in range(least):
                    whole = self._join(whole, self._build(inner))
                if most is None:
                    again = self._build(inner)
                    self._link(again.last, again.first)
                    return self._join(whole, _maybe(again))
                for _ in range(most - least):
                    whole = self._join(whole, _maybe(self._build(inner)))
                return whole

    def _join(self, left: _Part, right: _Part) -> _Part:
        self._link(left.last, right.first)
        return _Part(
            left.empty and right.empty,
            left.empty_at_start and right.empty_at_start,
            left.empty_at_end and right.empty_at_end,
            left.empty_alone and right.empty_alone,
            left.first | (right.first if left.empty else 0),
            left.first_at_start | (right.first_at_start if left.empty_at_start else 0),
            right.last | (left.last if right.empty else 0),
            right.last_at_end | (left.last_at_end if right.empty_at_end else 0),
        )

    def _link(self, last: int, first: int) -> None:
        if first:
            for position in _bits(last):
                self._follow[position] |= first


_EMPTY = _Part(True, True, True, True, 0, 0, 0, 0)


def _maybe(part: _Part) -> _Part:
    """The part, or nothing."""
    return part._replace(empty=True, empty_at_start=True, empty_at_end=True, empty_alone=True)


def _union(sets: Iterable[int]) -> int:
    found = 0
    for each in sets:
        found |= each
    return found


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


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
            return self._class()
        if char == ".":
            return _ANY
        if char in "^$":
            return _Anchor(char)
        if char == "\\":
            return self._escape()
        if char in "*+?{":
            self._fail("repeats nothing")
        return self._literal(char)

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

    def _class(self) -> _Chars:
        opposite = self._take("^")
        found = _NOTHING
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
                found |= self._range(low, self._class_member())
            elif low[1:] in _CLASSES and low[0] == "\\":
                found |= _CLASSES[low[1:]]
            else:
                found |= self._literal(low)
        return found.opposite() if opposite else found

    def _range(self, low: str, high: str) -> _Chars:
        if len(high) != 1 or high < low or ord(high) - ord(low) > _CHARACTERS_KEPT:
            self._fail("has a range that is not a-z")
        found = _NOTHING
        for code in range(ord(low), ord(high) + 1):
            found |= self._literal(chr(code))
        return found

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

    def _escape(self) -> _Chars:
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

    def _literal(self, char: str) -> _Chars:
        return _Chars(frozenset({char, char.swapcase()} if self._any_case else {char}))

    def _take(self, wanted: str) -> bool:
        if self._text.startswith(wanted, self._pos):
            self._pos += len(wanted)
            return True
        return False

    def _fail(self, what: str) -> NoReturn:
        raise InvalidRegularExpression(f"the pattern {self._text!r} {what}")


@lru_cache(maxsize=_PATTERNS_KEPT)
def compile_pattern(text: str) -> Pattern:
    """The pattern, ready to match whole names; raises `InvalidRegularExpression`."""
    return Pattern(text)


def matching(text: str, names: Iterable[str]) -> frozenset[str]:
    """The topics whose whole name matches."""
    matches = compile_pattern(text).fullmatch
    return frozenset(name for name in names if matches(name) and name not in INTERNAL_TOPICS)
