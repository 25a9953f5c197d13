"""Judges what groups committed: an acknowledged offset is neither lost nor taken back, and lies behind nothing unread.

A request to commit that was not acknowledged may be carried out at any later time: it may wait in a connection that its client
has long given up.  So a place that somebody was told is right if some request for it may have been the last.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from tidelog.names import TopicPartition

from .history import Commit, Committed, History


def lost_offsets(history: History) -> Iterator[str]:
    """What was told of a group's place is what some request said, and no acknowledged one came after it."""
    by_place: dict[tuple[str, TopicPartition], list[Commit]] = {}
    for each in history.commits:
        by_place.setdefault((each.group, each.tp), []).append(each)
    for told in history.committed:
        if told.asked < history.fresh_from:
            continue
        commits = by_place.get((told.group, told.tp), [])
        newest = max((each.began for each in commits if each.ended < told.asked), default=None)
        if told.offset < 0:
            right = newest is None
        else:
            right = any(
                each.offset == told.offset
                and each.began <= told.time
                and (newest is None or each.ended >= newest)
                for each in commits
            )
        if not right:
            yield _lost(told, commits)


def _lost(told: Committed, commits: list[Commit]) -> str:
    where = f"{told.tp.topic}-{told.tp.partition}"
    last = max((each for each in commits if each.ended < told.asked), key=_began, default=None)
    if last is None:
        return (
            f"offset from nowhere: group {told.group} was said to be at {told.offset} of {where} "
            f"(at {told.time:.4f}), which nobody had committed"
        )
    return (
        f"lost offset: group {told.group} was said to be at {told.offset} of {where} (at "
        f"{told.time:.4f}), and {last.offset} was acknowledged at {last.ended:.4f}"
    )


def _began(commit: Commit) -> float:
    return commit.began


def offsets_past_the_unread(history: History) -> Iterator[str]:
    """Whoever commits an offset has handed out everything before it, it or another of its group."""
    for group, prefix in history.groups.items():
        seen: dict[TopicPartition, dict[int, float]] = {}
        for who, polls in history.polls.items():
            if not who.startswith(prefix):
                continue
            for each in polls:
                if each.value is not None:
                    times = seen.setdefault(each.tp, {})
                    times[each.offset] = min(each.time, times.get(each.offset, each.time))
        for tp, rows in history.final.items():
            start = _first(history, group, tp)
            if start is None:
                continue
            offsets = [offset for offset, _ in rows if offset >= start]
            times = seen.get(tp, {})
            read_by = list(accumulate((times.get(each, float("inf")) for each in offsets), max))
            for commit in history.commits:
                if commit.group != group or commit.tp != tp:
                    continue
                before = bisect_left(offsets, commit.offset)
                if before and read_by[before - 1] > commit.began:
                    yield (
                        f"committed past the unread: group {group} committed {commit.offset} of "
                        f"{tp.topic}-{tp.partition} (at {commit.began:.4f}), and "
                        f"{offsets[bisect_left(read_by, read_by[before - 1])]} had not been read"
                    )


def groups_are_at_the_end(history: History) -> bool:
    """Whether every group has a place in every partition, and has read everything since.

    A group without a place has nothing unread; but what it commits when it closes would be its first, and nobody reads on.
    """
    return all(
        _first(history, group, tp) is not None for group in history.groups for tp in history.final
    ) and not any(_unseen_after_commit(history))


def unseen_after_commit(history: History) -> Iterator[str]:
    """A group that begins at the end misses nothing after the first offset that it has committed."""
    if history.groups_at_end:
        yield from _unseen_after_commit(history)


def _unseen_after_commit(history: History) -> Iterator[str]:
    for group, prefix in history.groups.items():
        seen = {
            each.value
            for who, polls in history.polls.items()
            if who.startswith(prefix)
            for each in polls
        }
        for tp, rows in history.final.items():
            start = _first(history, group, tp)
            if start is None:
                continue
            for offset, value in rows:
                if offset >= start and value not in seen:
                    yield (
                        f"skipped by its group: {value} at {tp.topic}-{tp.partition}@{offset} lies "
                        f"behind {start}, the first offset that group {group} committed"
                    )


def _first(history: History, group: str, tp: TopicPartition) -> int | None:
    """The lowest offset that the group was acknowledged; before it, it may have begun anywhere."""
    found = [
        each.offset
        for each in history.commits
        if each.group == group and each.tp == tp and each.ended < float("inf")
    ]
    return min(found, default=None)
