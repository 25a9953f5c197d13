"""Judges a history, in the manner of Jepsen's queue checks: each broken promise is one line.

    for line in violations(history): ...
    for line in violations(history, unclean=True): ...      what is left of the promises with unclean elections

What is promised, with acks=all, min.insync.replicas=2, idempotent producers and faults within bounds:
an acknowledged write is never lost and is seen by every group; an offset has one value for ever; no value is there
twice; a producer's values are in their order; nobody sees an aborted value who asked not to; a consumer neither skips
nor goes back; what was read once stays; one epoch of a partition has one leader; the end of a partition never moves back for
a reader, and lies behind everything that was acknowledged before the reader asked; epochs rise with the offsets.  What
groups commit is judged in `group_checker.py`.

With acks=1 (values of `a…`) a write may be lost, be there twice and out of order, until somebody has read it.  With
unclean elections any write may be lost.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from tidelog.names import TopicPartition

from .group_checker import lost_offsets, offsets_past_the_unread, unseen_after_commit
from .history import History, Place

_AT_MOST = 5
"""Lines of one kind; more say nothing new."""


def violations(history: History, *, unclean: bool = False) -> list[str]:
    """One line for each broken promise, at most a few of a kind."""
    found: list[str] = []
    for check in _ALWAYS if unclean else _ALWAYS + _WITHOUT_LOSS:
        lines = list(check(history))
        found += lines[:_AT_MOST]
        if len(lines) > _AT_MOST:
            found.append(f"… and {len(lines) - _AT_MOST} more of the last kind")
    return found


def lost_writes(history: History) -> Iterator[str]:
    final = {(tp, offset): value for tp, rows in history.final.items() for offset, value in rows}
    for value, place in history.acknowledged.items():
        if place.tp not in history.final:
            continue  # deleted since
        found = final.get(place)
        if found is None:
            yield f"lost write: {value} was acknowledged at {_at(place)}, and nothing is there"


def unseen_writes(history: History) -> Iterator[str]:
    if not history.groups_at_end:
        return
    seen = {
        each.value for who, polls in history.polls.items() if who.startswith("c") for each in polls
    }
    for value, place in history.acknowledged.items():
        if place.tp in history.final and value not in seen:
            yield f"unseen write: {value} at {_at(place)} was acknowledged and no member of the group got it"


def two_values_at_one_offset(history: History) -> Iterator[str]:
    known: dict[Place, tuple[str, str]] = {}
    for place, value, who in _observations(history):
        first = known.setdefault(place, (value, who))
        if first[0] != value:
            yield (
                f"two values at one offset: {_at(place)} was {first[0]} for {first[1]} "
                f"and {value} for {who}"
            )


def duplicates(history: History) -> Iterator[str]:
    places: dict[str, Place] = {}
    for tp, rows in history.final.items():
        for offset, value in rows:
            if _is_weak(value):
                continue
            first = places.setdefault(value, Place(tp, offset))
            if first != (tp, offset):
                yield f"duplicate: {value} is at {_at(first)} and at {_at(Place(tp, offset))}"


def reordered(history: History) -> Iterator[str]:
    for tp, rows in history.final.items():
        last: dict[str, int] = {}
        for offset, value in rows:
            producer, _, number = value.rpartition("-")
            if _is_weak(value):
                continue
            if int(number) < last.get(producer, -1):
                yield (
                    f"reordered: {value} at {_at(Place(tp, offset))} comes after "
                    f"{producer}-{last[producer]}"
                )
            last[producer] = max(int(number), last.get(producer, -1))


def aborted_reads(history: History) -> Iterator[str]:
    aborted = {
        value for each in history.transactions if each.outcome == "aborted" for value in each.values
    }
    for who, polls in history.committed_polls.items():
        for each in polls:
            if each.value in aborted:
                yield f"aborted read: {who} got {each.value} at {_at(Place(each.tp, each.offset))}"


def torn_transactions(history: History) -> Iterator[str]:
    """At the end a transaction is there with all its values or with none, whatever its producer was told."""
    seen = {each.value for polls in history.committed_polls.values() for each in polls}
    if not history.committed_polls or not history.groups_at_end:
        return
    for each in history.transactions:
        there = [value for value in each.values if value in seen]
        if there and len(there) < len(each.values):
            missing = next(value for value in each.values if value not in seen)
            yield f"torn transaction ({each.outcome}): {there[0]} is read and {missing} is not"
        if not there and each.values and each.outcome == "committed":
            yield f"lost transaction: {each.values[0]} was committed and is not read"


def not_copied_once(history: History) -> Iterator[str]:
    """What is read, written and committed in one transaction is there once."""
    if history.copied is None:
        return
    count = Counter(history.copied)
    for value, times in count.items():
        if times > 1 and not _is_weak(value):
            yield f"copied twice: {value} is {times} times in the committed copy"
    for tp, rows in history.final.items():
        for offset, value in rows:
            if value not in count:
                yield f"not copied: {value} at {_at(Place(tp, offset))} is not in the committed copy"


def skipped_or_backward_polls(history: History) -> Iterator[str]:
    """Within one assignment a consumer gets every record after its first, once, in order."""
    aborted = {
        v for each in history.transactions if each.outcome != "committed" for v in each.values
    }
    for who, polls in [*history.polls.items(), *history.committed_polls.items()]:
        last: dict[TopicPartition, int] = {}
        for each in polls:
            if each.value is None:
                last.pop(each.tp, None)
                continue
            if each.tp in last and each.offset <= last[each.tp]:
                yield (
                    f"backward poll: {who} got {_at(Place(each.tp, each.offset))} after "
                    f"{last[each.tp]} (at {each.time:.4f})"
                )
            elif each.tp in last:
                between = [
                    value
                    for offset, value in _between(history, each.tp, last[each.tp], each.offset)
                    if value not in aborted
                ]
                if between:
                    yield (
                        f"skipped poll: {who} got {_at(Place(each.tp, each.offset))} after "
                        f"{last[each.tp]}, and {between[0]} lies between (at {each.time:.4f})"
                    )
            last[each.tp] = each.offset


def ends_that_went_back(history: History) -> Iterator[str]:
    for who, told in history.ends.items():
        last: dict[TopicPartition, int] = {}
        for each in told:
            if each.end < last.get(each.tp, 0):
                yield (
                    f"end went back: {who} was told {each.tp.topic}-{each.tp.partition} ends at "
                    f"{last[each.tp]}, then at {each.end} (at {each.time:.4f})"
                )
            last[each.tp] = each.end


def stale_ends(history: History) -> Iterator[str]:
    """Whoever asks where a partition ends after a write was acknowledged hears of an end behind it."""
    acknowledged: dict[TopicPartition, list[tuple[float, int, str]]] = {}
    for value, place in history.acknowledged.items():
        at = history.acknowledged_at.get(value)
        if at is not None:
            acknowledged.setdefault(place.tp, []).append((at, place.offset, value))
    for writes in acknowledged.values():
        writes.sort()
    for who, told in history.ends.items():
        for tp, writes in acknowledged.items():
            number, highest = 0, (-1, "")
            for each in sorted((e for e in told if e.tp == tp), key=lambda e: e.asked):
                while number < len(writes) and writes[number][0] < each.asked:
                    highest = max(highest, writes[number][1:])
                    number += 1
                if each.end <= highest[0] and each.asked >= history.fresh_from:
                    yield (
                        f"stale end: {who} was told that {tp.topic}-{tp.partition} ends at "
                        f"{each.end} (asked at {each.asked:.4f}), and {highest[1]} had been "
                        f"acknowledged at {highest[0]}"
                    )


def epochs_that_went_back(history: History) -> Iterator[str]:
    """A batch has one epoch for everybody, and a later offset never an earlier one."""
    known: dict[Place, int] = {}
    for who, batches in history.batches.items():
        for each in batches:
            epoch = known.setdefault(Place(each.tp, each.offset), each.epoch)
            if epoch != each.epoch:
                yield (
                    f"two epochs at one offset: {_at(Place(each.tp, each.offset))} was of epoch "
                    f"{epoch}, and of {each.epoch} for {who}"
                )
    last: dict[TopicPartition, int] = {}
    for place, epoch in sorted(known.items()):
        if epoch < last.get(place.tp, -1):
            yield f"epoch went back: {_at(place)} is of epoch {epoch}, after {last[place.tp]}"
        last[place.tp] = epoch


def lost_after_reading(history: History) -> Iterator[str]:
    """What a reader was handed is committed, whoever wrote it and however."""
    final = {(tp, offset) for tp, rows in history.final.items() for offset, _ in rows}
    for place, value, who in _observations(history):
        if place.tp in history.final and place not in final:
            yield f"lost after reading: {who} saw {value} at {_at(place)}, and nothing is there"


def values_from_nowhere(history: History) -> Iterator[str]:
    for place, value, who in _observations(history):
        if value not in history.sent:
            yield f"value from nowhere: {who} saw {value!r} at {_at(place)}, which nobody sent"


def _observations(history: History) -> Iterator[tuple[Place, str, str]]:
    for tp, rows in history.final.items():
        for offset, value in rows:
            yield Place(tp, offset), value, "the last reader"
    for value, place in history.acknowledged.items():
        yield place, value, "its producer"
    for who, polls in [*history.polls.items(), *history.committed_polls.items()]:
        for each in polls:
            if each.value is not None:
                yield Place(each.tp, each.offset), each.value, who


def _between(
    history: History, tp: TopicPartition, after: int, before: int
) -> Iterator[tuple[int, str]]:
    if before == after + 1:
        return
    for offset, value in history.final.get(tp, ()):
        if after < offset < before:
            yield offset, value


def _is_weak(value: str) -> bool:
    """Whether it was written by a producer without acks=all and without idempotence."""
    return value.startswith("a")


def _at(place: Place) -> str:
    return f"{place.tp.topic}-{place.tp.partition}@{place.offset}"


_ALWAYS: tuple[Callable[[History], Iterator[str]], ...] = (
    duplicates,
    reordered,
    values_from_nowhere,
)
_WITHOUT_LOSS = (
    lost_writes,
    unseen_writes,
    two_values_at_one_offset,
    lost_after_reading,
    aborted_reads,
    torn_transactions,
    not_copied_once,
    skipped_or_backward_polls,
    ends_that_went_back,
    stale_ends,
    epochs_that_went_back,
    lost_offsets,
    offsets_past_the_unread,
    unseen_after_commit,
)
