"""Where replicas should be, given where they are: even, spread over racks, and with few moves.

    wanted = spread({TopicPartition("orders", 0): (0, 1)}, [Site(0), Site(1), Site(2)])

`placement.py` places what is new; this moves what is there, and moving costs: so a replica stays where it is unless
its broker is not wanted any more, or holds more than its share.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tidelog.cluster.placement import Site
from tidelog.names import TopicPartition


def spread(
    present: Mapping[TopicPartition, Sequence[int]],
    sites: Sequence[Site],
    factor: int | None = None,
) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas of every partition over `sites`; `factor` changes how many there are.

    Requires at least as many sites as replicas.
    """
    racks = {site.broker: site.rack for site in sites}
    held: dict[int, set[TopicPartition]] = {site.broker: set() for site in sites}
    plan: dict[TopicPartition, list[int]] = {}
    for where, replicas in present.items():
        plan[where] = [each for each in replicas if each in held][: factor or len(replicas)]
        for each in plan[where]:
            held[each].add(where)
    for where, replicas in present.items():
        while len(plan[where]) < (factor or len(replicas)):
            chosen = _emptiest(plan[where], held, racks)
            plan[where].append(chosen)
            held[chosen].add(where)
    while _even_out(plan, held, racks):
        pass  # what was moved may have made room for moves that racks did not allow before
    _share_leadership(plan, held)
    return {where: tuple(replicas) for where, replicas in plan.items()}


def _emptiest(
    replicas: Iterable[int],
    held: Mapping[int, set[TopicPartition]],
    racks: Mapping[int, str | None],
) -> int:
    """Who gets a replica: somebody in a rack that has none, and of those the one with the least."""
    taken = list(replicas)
    used = {racks[each] for each in taken if racks[each] is not None}
    return min(
        (each for each in held if each not in taken),
        key=lambda each: (racks[each] in used, len(held[each]), each),
    )


def _even_out(
    plan: Mapping[TopicPartition, list[int]],
    held: Mapping[int, set[TopicPartition]],
    racks: Mapping[int, str | None],
) -> bool:
    """Move replicas from those who hold the most to those who hold the least; whether any was moved.

    Each move makes the difference between two brokers smaller, so there is an end to it.
    """
    moved = False
    queues: dict[tuple[int, int], Iterator[TopicPartition]] = {}
    stuck: set[tuple[int, int]] = set()
    while True:
        pairs = [
            (len(held[fullest]) - len(held[emptiest]), fullest, emptiest)
            for fullest in held
            for emptiest in held
            if (fullest, emptiest) not in stuck
        ]
        difference, fullest, emptiest = max(pairs, default=(0, -1, -1))
        if difference <= 1:
            return moved
        pair = (fullest, emptiest)
        if pair not in queues:
            queues[pair] = iter(sorted(held[fullest]))
        where = next(
            (
                each
                for each in queues[pair]
                if each in held[fullest]
                and each not in held[emptiest]
                and _keeps_racks(plan[each], fullest, emptiest, racks)
            ),
            None,
        )
        if where is None:
            stuck.add(pair)
            continue
        replicas = plan[where]
        replicas[replicas.index(fullest)] = emptiest
        held[fullest].discard(where)
        held[emptiest].add(where)
        moved = True


def _keeps_racks(
    replicas: Sequence[int], old: int, new: int, racks: Mapping[int, str | None]
) -> bool:
    others = [racks[each] for each in replicas if each != old]
    return racks[new] is None or racks[new] not in others or racks[new] == racks[old]


def _share_leadership(
    plan: Mapping[TopicPartition, list[int]], held: Mapping[int, set[TopicPartition]]
) -> None:
    """Let another replica come first where a broker would lead more than its share, until that brings nothing.

    Each change lowers the sum of the squares of what brokers lead, so there is an end; a plan of a plan changes nothing.
    """
    led = dict.fromkeys(held, 0)
    for replicas in plan.values():
        led[replicas[0]] += 1
    changed = True
    while changed:
        changed = False
        for where in sorted(plan):
            replicas = plan[where]
            best = min(replicas, key=lambda each: (led[each], each))
            if led[replicas[0]] - led[best] > 1:
                led[replicas[0]] -= 1
                led[best] += 1
                replicas.remove(best)
                replicas.insert(0, best)
                changed = True
