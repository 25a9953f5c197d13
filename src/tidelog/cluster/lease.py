"""Whether a leader that the metastore has not heard for long may still answer as one.

    lease = Lease(broker_id, image, clock, patience_ms)
    lease.until = deadline              # with every sign of life that the metastore took
    if lease.is_over: lease.check(partition)

Until the session's deadline nobody else can have been elected.  From then on somebody may have been, and what this broker
knows of the partition may be old: a consumer would be told that its offset does not exist, or that the log ends earlier than it
has read.  But the metastore may only be away, and then nobody is elected and somebody must serve.  The other in-sync replicas can tell: a
new leader is one of them, and whoever leads, or follows another, does not fetch here any more.  So a leader goes on while all of
them do.  Where it is the only one in sync, and nobody else could be elected, it goes on too.
"""

import math
from collections.abc import Callable

from tidelog.clock import Clock
from tidelog.cluster.image import Image
from tidelog.cluster.partition import Partition
from tidelog.errors import NotLeaderOrFollower


class Lease:
    """See the module's docstring."""

    __slots__ = ("_broker_id", "_clock", "_image", "_patience_ms", "until")

    def __init__(
        self,
        broker_id: int,
        image: Callable[[], Image],
        clock: Clock,
        patience_ms: Callable[[], int],
    ) -> None:
        """`patience_ms`: how long a follower that is in sync may take from one fetch to the next."""
        self._broker_id = broker_id
        self._image = image
        self._clock = clock
        self._patience_ms = patience_ms
        self.until = -math.inf
        """Monotonic time until which nobody can have taken over; minus infinity while this broker is not registered."""

    @property
    def is_over(self) -> bool:
        return self._clock.monotonic() >= self.until

    def check(self, partition: Partition) -> None:
        """Raise `NotLeaderOrFollower` if another may lead the partition by now."""
        if self.is_in_doubt(partition):
            raise NotLeaderOrFollower(
                f"broker {self._broker_id} has lost touch with the cluster, and another may lead {partition.topic_partition}"
            )

    def is_in_doubt(self, partition: Partition) -> bool:
        """Whether another may lead the partition by now, if the lease is over."""
        followers = partition.followers
        if partition.not_leading is not None or followers is None:
            return False  # it does not answer as a leader, or has no other replica
        others = [each for each in followers.isr if each != self._broker_id]
        if not others:
            state = self._image().maybe_partition(partition.topic_id, partition.index)
            electable = state is not None and bool(state.eligible)
            return electable or partition.log.config.unclean_leader_election
        since_ms = int(self._clock.monotonic() * 1000) - self._patience_ms()
        return not heard_since(partition, since_ms).issuperset(others)


def heard_since(partition: Partition, then_ms: int) -> frozenset[int]:
    """The followers that have fetched since."""
    for watcher in list(partition.replica_watchers):
        watcher.settled(
            partition
        )  # a session makes up for the fetches of a partition that is parked
    followers = partition.followers
    return frozenset() if followers is None else followers.heard_since(then_ms)
