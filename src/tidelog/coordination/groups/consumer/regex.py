"""Topic patterns of KIP-848 members, resolved by the broker.

Kafka asks for RE2 syntax, which is matched in linear time.  We match with `re`, which is not, so patterns that could
take long are refused: look-around and back-references (RE2 has neither), a repetition inside a repetition, and more
than a few unbounded ones.  Internal topics are never matched.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from tidelog.errors import InvalidRegularExpression
from tidelog.names import INTERNAL_TOPICS

_MAX_LENGTH = 512
_MAX_UNBOUNDED = 3
_NOT_RE2 = re.compile(r"\(\?(?:=|!|<=|<!|P=|\(|>)|\\[1-9]")
_NESTED = re.compile(r"\([^()]*[*+}][^()]*\)[*+{]")
_UNBOUNDED = re.compile(r"(?<!\\)(?:[*+]|,\})")


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern, ready to match whole names; raises `InvalidRegularExpression`."""
    if len(pattern) > _MAX_LENGTH:
        raise InvalidRegularExpression(f"the pattern is longer than {_MAX_LENGTH} characters")
    if _NOT_RE2.search(pattern):
        raise InvalidRegularExpression("look-around and back-references are not supported")
    if _NESTED.search(pattern) or len(_UNBOUNDED.findall(pattern)) > _MAX_UNBOUNDED:
        raise InvalidRegularExpression(
            f"a repetition inside another, or more than {_MAX_UNBOUNDED} of them, may take too long to match"
        )
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidRegularExpression(f"{pattern!r}: {error}") from None


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The topics whose whole name matches."""
    compiled = compile_pattern(pattern)
    return frozenset(
        name for name in names if name not in INTERNAL_TOPICS and compiled.fullmatch(name)
    )
