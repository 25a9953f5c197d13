"""Looks inside the brokers: what no client can see, and must hold all the same.

While a run goes on, every write to a partition is noted with the epoch and the broker that took it: two brokers in one
epoch are two leaders.  At the end the replicas are compared byte by byte on their disks.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from tidelog.cluster.image import Image
from tidelog.cluster.partition import Partition
from tidelog.records.batch import HEADER_BYTES, BatchHeader, parse_header

from .cluster import SimCluster
from .loop import CURRENT
from .story import Story


@contextlib.contextmanager
def one_leader_an_epoch(story: Story) -> Iterator[None]:
    """Note who writes as leader, and complain of a second one."""
    leaders: dict[tuple[UUID, int, int], str] = {}
    plain, gathered = Partition.append, Partition.append_gathered

    def note(partition: Partition) -> None:
        process = CURRENT.get()
        if process is None:
            return
        key = (partition.topic_id, partition.index, partition.leader_epoch)
        first = leaders.setdefault(key, process.host)
        if first != process.host:
            story.violation(
                f"two leaders: {partition.topic}-{partition.index} was written by {first} and by "
                f"{process.host} in epoch {partition.leader_epoch}"
            )

    def watched(write: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Partition, *args: Any, **options: Any) -> Any:
            result = write(self, *args, **options)
            note(self)
            return result

        return call

    Partition.append = watched(plain)  # type: ignore[method-assign]
    Partition.append_gathered = watched(gathered)  # type: ignore[method-assign]
    try:
        yield
    finally:
        Partition.append = plain  # type: ignore[method-assign]
        Partition.append_gathered = gathered  # type: ignore[method-assign]


def differing_replicas(cluster: SimCluster, image: Image) -> Iterator[str]:
    """A line for each replica that is not the same as its leader's."""
    for topic in image.topics.values():
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
    directory = f"/{node.host}/{name}"
    found: list[bytes] = []
    if not node.disk.exists(directory):
        return found
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
