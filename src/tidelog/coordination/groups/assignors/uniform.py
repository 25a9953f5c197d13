"""Uniform: as even as the subscriptions allow, and sticky: a partition moves only to even things out.

Where all members read the same topics, loads differ by at most one, and no more partitions move than that needs.
Where they differ, partitions with the fewest possible readers are placed first, each with its least loaded reader,
and then moved while that evens out two loads.
"""

from collections.abc import Mapping
from typing import Any

from tidelog.coordination.groups.assignors.spec import Assignment, MemberSpec, Place

_MAX_PASSES = 100
"""Each pass moves towards even loads, so few are needed; the bound is against surprises."""


def assign_uniform(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[Any, int]
) -> dict[str, Assignment]:
    """Every partition of every topic that somebody reads to one of its readers."""
    if not members:
        return {}
    kept = _still_valid(members, partition_counts)
    subscriptions = {spec.topic_ids for spec in members.values()}
    if len(subscriptions) == 1:
        _even_out(kept, _places(partition_counts, next(iter(subscriptions))))
    else:
        _place_greedily(members, kept, partition_counts)
        _move_while_it_helps(members, kept)
    return {member_id: frozenset(places) for member_id, places in kept.items()}


def _still_valid(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[Any, int]
) -> dict[str, set[Place]]:
    """What each member may keep: it still reads the topic, the partition is there, and nobody else has it."""
    taken: set[Place] = set()
    kept: dict[str, set[Place]] = {}
    for member_id in sorted(members):
        spec = members[member_id]
        mine = {
            place
            for place in spec.target
            if place[0] in spec.topic_ids and place[1] < partition_counts.get(place[0], 0)
        } - taken
        taken |= mine
        kept[member_id] = mine
    return kept


def _places(partition_counts: Mapping[Any, int], topic_ids: frozenset[Any]) -> list[Place]:
    return [
        (topic_id, index)
        for topic_id, count in sorted(partition_counts.items(), key=lambda item: str(item[0]))
        if topic_id in topic_ids
        for index in range(count)
    ]


def _even_out(kept: dict[str, set[Place]], places: list[Place]) -> None:
    least, more = divmod(len(places), len(kept))
    # Who has most keeps the odd ones, so that they do not move.
    by_load = sorted(kept, key=lambda each: (-len(kept[each]), each))
    quota = {member_id: least + (rank < more) for rank, member_id in enumerate(by_load)}
    for member_id, mine in kept.items():
        for place in sorted(mine, key=_order)[quota[member_id] :]:
            mine.discard(place)
    owned = set().union(*kept.values())
    free = iter([place for place in places if place not in owned])
    for member_id in sorted(kept):
        mine = kept[member_id]
        while len(mine) < quota[member_id]:
            mine.add(next(free))


def _place_greedily(
    members: Mapping[str, MemberSpec],
    kept: dict[str, set[Place]],
    partition_counts: Mapping[Any, int],
) -> None:
    readers = {
        topic_id: [each for each in sorted(members) if topic_id in members[each].topic_ids]
        for topic_id in partition_counts
    }
    owned = set().union(*kept.values())
    read = frozenset(topic_id for topic_id, found in readers.items() if found)
    free = [place for place in _places(partition_counts, read) if place not in owned]
    for place in sorted(free, key=lambda each: len(readers[each[0]])):
        member_id = min(readers[place[0]], key=lambda each: (len(kept[each]), each))
        kept[member_id].add(place)


def _move_while_it_helps(members: Mapping[str, MemberSpec], kept: dict[str, set[Place]]) -> None:
    for _ in range(_MAX_PASSES):
        moved = False
        for giver in sorted(kept, key=lambda each: (-len(kept[each]), each)):
            for place in sorted(kept[giver], key=_order):
                takers = [each for each in kept if place[0] in members[each].topic_ids]
                taker = min(takers, key=lambda each: (len(kept[each]), each))
                if len(kept[taker]) + 1 < len(kept[giver]):
                    kept[giver].discard(place)
                    kept[taker].add(place)
                    moved = True
        if not moved:
            return


def _order(place: Place) -> tuple[str, int]:
    return str(place[0]), place[1]
