"""Which brokers hold which partition: pure arithmetic, even, and spread over racks.

Leaders go round the brokers; the followers of a partition go round them too, with a step that grows each time
the leaders have gone round once, so that two brokers do not share all their partitions.  With racks the brokers
are first put in an order that changes rack at every step, and a rack is used twice only when all have
been used once (KIP-36).
"""

from collections.abc import Sequence
from typing import NamedTuple


class Site(NamedTuple):
    """A broker and where it stands."""

    broker: int
    rack: str | None = None


def place(
    partitions: int,
    replication_factor: int,
    sites: Sequence[Site],
    *,
    first: int = 0,
    start: int = 0,
) -> list[tuple[int, ...]]:
    """Replicas of the partitions `first` … `first + partitions - 1`; the first replica is the preferred leader.

    `start` turns the whole pattern, so that the partition 0 of every topic is not on the same broker.
    Requires 1 <= replication_factor <= len(sites).
    """
    assert 1 <= replication_factor <= len(sites)
    ring = _alternate_racks(sites)
    return [
        _replicas(ring, replication_factor, start + partition)
        for partition in range(first, first + partitions)
    ]


def _replicas(ring: list[Site], count: int, turn: int) -> tuple[int, ...]:
    leader = turn % len(ring)
    step = turn // len(ring)
    others = (
        [
            ring[(leader + 1 + (step + each) % (len(ring) - 1)) % len(ring)]
            for each in range(len(ring) - 1)
        ]
        if len(ring) > 1
        else []
    )
    chosen = [ring[leader]]
    for fresh_racks_only in (True, False):
        racks = {site.rack for site in chosen if site.rack is not None}
        for site in others:
            if len(chosen) == count:
                break
            if site in chosen or (fresh_racks_only and site.rack in racks):
                continue
            chosen.append(site)
            if site.rack is not None:
                racks.add(site.rack)
    return tuple(site.broker for site in chosen)


def _alternate_racks(sites: Sequence[Site]) -> list[Site]:
    """The brokers in an order whose neighbours stand in different racks, as far as that is possible."""
    racks: dict[str | None, list[Site]] = {}
    for site in sorted(sites, key=lambda site: site.broker):
        racks.setdefault(site.rack, []).append(site)
    queues = [racks[rack] for rack in sorted(racks, key=lambda rack: (rack is None, rack or ""))]
    ring: list[Site] = []
    depth = 0
    while len(ring) < len(sites):
        ring += [queue[depth] for queue in queues if depth < len(queue)]
        depth += 1
    return ring
