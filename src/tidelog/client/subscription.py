"""What a consumer wants to read: names of topics, or a pattern with exceptions."""

import re
from collections.abc import Collection, Iterable
from dataclasses import field

from tidelog.client.cluster import Cluster
from tidelog.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Wish:
    """A subscription; the pattern must match a whole name, and internal topics are never meant by one."""

    names: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    deny: tuple[re.Pattern[str], ...] = field(default=())
    plain_pattern: str | None = None
    """The pattern as a text with nothing denied: a broker can match it (KIP-848), in RE2's dialect."""

    @classmethod
    def of(
        cls,
        topics: str | Iterable[str] | None,
        pattern: "str | re.Pattern[str] | None",
        deny: "Iterable[str | re.Pattern[str]]",
    ) -> "Wish":
        if (topics is None) == (pattern is None):
            raise ValueError("subscribe to topics or to a pattern, one of them")
        names = [topics] if isinstance(topics, str) else topics or ()
        denied = tuple(re.compile(each) for each in deny)
        return cls(
            frozenset(names),
            None if pattern is None else re.compile(pattern),
            denied,
            pattern if isinstance(pattern, str) and not denied else None,
        )

    def matches(self, topic: str, is_internal: bool = False) -> bool:
        if self.pattern is None:
            return topic in self.names
        return (
            not is_internal
            and self.pattern.fullmatch(topic) is not None
            and not any(each.fullmatch(topic) for each in self.deny)
        )


async def topics_of(wish: Wish, cluster: Cluster) -> Collection[str]:
    """The topics that are wished for now; a pattern is held against the metadata of all topics."""
    if wish.pattern is None:
        return wish.names
    answer = await cluster.refresh(None)
    return frozenset(
        each.name
        for each in answer.topics
        if each.name and wish.matches(each.name, each.is_internal)
    )
