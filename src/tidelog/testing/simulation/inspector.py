"""Looks inside the brokers: what no client can see, and must hold all the same.

While a run goes on, every write to a partition is noted with the epoch and the broker that took it: two brokers in one
epoch are two leaders.  So is the high watermark: nobody leads with less than was ever committed, and nobody cuts away
what it knows to be committed.  At the end the replicas are compared byte by byte on their disks.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import Any
from uuid import UUID

from tidelog.cluster.image import Image
from tidelog.cluster.partition import Partition
from tidelog.records.batch import HEADER_BYTES, BatchHeader, parse_header

from .cluster import SimCluster
from .loop import CURRENT
from .story import Story


@contextlib.contextmanager
def watching(story: Story, *, unclean: bool, synced: bool) -> Iterator[None]:
    """Complain of whatever a replica may not do while a run goes on.

    `unclean`: elections may take a replica that lacks committed records.  `synced`: every write is on the disk before it counts,
    so that a power cut takes nothing from a partition that has but one replica either.
    """
    watch = _Watch(story, unclean=unclean, synced=synced)
    with (
        _around(Partition, "append", after=watch.wrote),
        _around(Partition, "append_gathered", after=watch.wrote),
        _around(Partition, "_advance", after=watch.committed),
        _around(Partition, "_follow_log_end", after=watch.committed),
        _around(Partition, "become_leader", after=watch.leads),
        _around(Partition, "truncate_to", before=watch.cuts),
        _around(Partition, "restart_at", before=watch.cuts),
    ):
        yield


class _Watch:
    """What the brokers did, by partition."""

    def __init__(self, story: Story, *, unclean: bool, synced: bool) -> None:
        self._story = story
        self._unclean = unclean
        self._synced = synced
        self._leaders: dict[tuple[UUID, int, int], str] = {}
        """Who wrote in which epoch."""
        self._committed: dict[tuple[UUID, int], tuple[int, int, str]] = {}
        """The highest high watermark that any replica had, the epoch in which it was reached, and whose it was."""

    def wrote(self, partition: Partition) -> None:
        host = _host()
        if host is None:
            return
        key = (partition.topic_id, partition.index, partition.leader_epoch)
        first = self._leaders.setdefault(key, host)
        if first != host:
            self._story.violation(
                f"two leaders: {partition.topic}-{partition.index} was written by {first} and by "
                f"{host} in epoch {partition.leader_epoch}"
            )

    def committed(self, partition: Partition) -> None:
        key = partition.topic_id, partition.index
        known = self._committed.get(key)
        if known is None or partition.high_watermark > known[0]:
            host = _host() or "nobody"
            self._committed[key] = partition.high_watermark, partition.leader_epoch, host

    def leads(self, partition: Partition) -> None:
        """Whoever leads has everything that was ever committed: else the others cut it away."""
        known = self._committed.get((partition.topic_id, partition.index))
        if known is None or self._may_lose(partition) or partition.log_end_offset >= known[0]:
            return
        if partition.leader_epoch < known[1]:
            return  # it reads old metadata, and will hear of the newer
        self._story.violation(
            f"leads without committed records: {_host()} leads {partition.topic}-{partition.index} "
            f"in epoch {partition.leader_epoch} with the end {partition.log_end_offset}, and "
            f"{known[0]} was the high watermark at {known[2]} in epoch {known[1]}"
        )

    def cuts(self, partition: Partition, offset: int) -> None:
        """A replica cuts away what it knows to be committed.  One that begins anew further on is behind deleted records."""
        if offset < partition.high_watermark and not self._may_lose(partition):
            self._story.violation(
                f"cut below the high watermark: {_host()} cuts {partition.topic}-{partition.index} "
                f"back to {offset}, and {partition.high_watermark} was committed"
            )

    def _may_lose(self, partition: Partition) -> bool:
        alone = partition.not_leading is None and partition.followers is None
        return self._unclean or (alone and not self._synced)


@contextlib.contextmanager
def _around(
    owner: type,
    name: str,
    *,
    before: Callable[..., None] | None = None,
    after: Callable[..., None] | None = None,
) -> Iterator[None]:
    """Call `before` with the arguments of a method, or `after` with its object alone."""
    plain = getattr(owner, name)

    def call(self: Any, *args: Any, **options: Any) -> Any:
        if before is not None:
            before(self, *args)
        result = plain(self, *args, **options)
        if after is not None:
            after(self)
        return result

    setattr(owner, name, call)
    try:
        yield
    finally:
        setattr(owner, name, plain)


def _host() -> str | None:
    process = CURRENT.get()
    return None if process is None else process.host


def differing_replicas(
    cluster: SimCluster, image: Image, without: Collection[str] = ()
) -> Iterator[str]:
    """A line for each replica that is not the same as its leader's, but for these topics."""
    for topic in image.topics.values():
        if topic.name in without:
            continue
        for index, state in enumerate(topic.partitions):
            if state.leader not in cluster.nodes:
                continue
            name = f"{topic.name}-{index}"
            led = _batches(cluster, state.leader, name)
            for broker_id in state.replicas:
                found = _batches(cluster, broker_id, name)
                if found != led:
                    yield f"replicas differ: {name} {_difference(led, found, state.leader, broker_id)}"


def _batches(cluster: SimCluster, broker_id: int, name: str) -> list[bytes]:
    """The batches of a partition as they lie on a broker's disk."""
    node = cluster.nodes[broker_id]
    found: list[bytes] = []
    at = [f"{each}/{name}" for each in node.log_dirs if node.disk.exists(f"{each}/{name}")]
    if not at:
        return found
    directory = at[0]
    for file in sorted(node.disk.sizes(directory)):
        if not file.endswith(".log"):
            continue
        data = node.disk.read(f"{directory}/{file}")
        position = 0
        while position + HEADER_BYTES <= len(data):
            header = parse_header(data, position)
            if header.length <= 0:
                break  # allocated ahead
            found.append(data[position : position + header.size])
            position += header.size
    return found


def _difference(led: list[bytes], found: list[bytes], leader: int, follower: int) -> str:
    for number, (one, other) in enumerate(zip(led, found, strict=False)):
        if one != other:
            return (
                f"in batch {number}: {_told(parse_header(one))} at leader {leader}, "
                f"{_told(parse_header(other))} at {follower}"
            )
    return f"in length: {len(led)} batches at leader {leader}, {len(found)} at {follower}"


def _told(header: BatchHeader) -> str:
    return (
        f"{header.base_offset}–{header.last_offset} of epoch {header.leader_epoch} "
        f"(producer {header.producer_id}, sequence {header.base_sequence})"
    )
