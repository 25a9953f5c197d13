"""What a follower's fetch reads: up to the log's end, and not before its log has been compared with ours.

A fetch from an offset says that the follower has everything below it; this is how the high watermark moves.  So the
epoch of its last batch is compared first (KIP-595): where the logs part, the answer says so in place of records, and
the follower cuts its log and asks again.  Within a session only what has changed is read (`replica_sessions.py`).
"""

from tidelog.broker.fetch_answer import Result
from tidelog.broker.fetch_reading import Reading
from tidelog.broker.fetch_sessions import Wanted
from tidelog.broker.replica_sessions import ReplicaSession
from tidelog.cluster.partition import Partition
from tidelog.cluster.throttle import is_listed
from tidelog.errors import NotLeaderOrFollower, OffsetOutOfRange


class ReplicaReading(Reading):
    """One fetch of a follower."""

    __slots__ = ("_woken_once", "follower")

    follower: tuple[int, int]
    """Id and epoch of the broker that asks."""
    _woken_once: bool

    def read(self) -> None:
        self._woken_once = self.deferred is not None
        if not self._woken_once:
            self.services.partitions.heard_ms[self.follower[0]] = self._now_ms()
        if isinstance(self.session, ReplicaSession):
            if not self._woken_once:
                self.session.requested(self.follower[0], self._now_ms())
            self.wanted = self.session.to_look_at()
        super().read()

    def _now_ms(self) -> int:
        return int(self.services.clock.monotonic() * 1000)

    def _read_one(self, wanted: Wanted) -> Result:
        partitions, topic = self.services.partitions, wanted.topic
        if isinstance(topic, bytes):
            partition = partitions.get_by_id(topic, wanted.index)
        else:
            partition = partitions.get(topic, wanted.index)
        partition.check_leader_epoch(wanted.leader_epoch)
        log, offset = partition.log, wanted.offset
        broker_id, broker_epoch = self.follower
        result = Result(topic, wanted.index)
        result.diverging = partition.diverged(broker_id, offset, wanted.last_fetched_epoch)
        if result.diverging is not None:
            self.failed = True  # it is to be told at once
        else:
            if not log.log_start_offset <= offset <= log.log_end_offset:
                raise OffsetOutOfRange
            if not self._woken_once:
                # What it said when it asked is not known to hold now, when it is woken.
                self._check_incarnation(broker_id, broker_epoch)
                partition.fetched_by(
                    broker_id, broker_epoch, offset, wanted.log_start, self._now_ms()
                )
            limit = min(wanted.max_bytes, self.max_bytes - self.bytes)
            at_least_one = not self.bytes
            if self._is_held_back(partition, broker_id):
                pass  # others have used up what those that catch up may have
            elif limit > 0 or at_least_one:
                region = partition.read_to_end(offset, limit, at_least_one=at_least_one)
                if region is not None:
                    result.region = region
                    result.traffic = partition.traffic
                    self.bytes += region.length
                    if is_listed(log.config.leader_throttled_replicas, wanted.index, broker_id):
                        self.services.leader_throttle.note(region.length)
            if isinstance(self.session, ReplicaSession):
                self.session.looked(wanted, partition)
            else:
                self.partitions[partition] = offset
        result.high_watermark = log.high_watermark
        result.last_stable_offset = log.last_stable_offset
        result.log_start_offset = log.log_start_offset
        return result

    def _is_held_back(self, partition: Partition, broker_id: int) -> bool:
        """Whether the leader's limit holds for this replica, and is exceeded."""
        replicas = partition.log.config.leader_throttled_replicas
        followers = partition.followers
        return (
            is_listed(replicas, partition.index, broker_id)
            and followers is not None
            and broker_id not in followers.isr
            and self.services.leader_throttle.exceeded()
        )

    def _check_incarnation(self, broker_id: int, broker_epoch: int) -> None:
        known = self.services.image().brokers.get(broker_id)
        if known is not None and -1 < broker_epoch < known.epoch:
            raise NotLeaderOrFollower(f"broker {broker_id} has registered anew since this fetch")

    def _count_out(self, results: list[Result]) -> None:
        for each in results:
            if each.region is not None and each.traffic is not None:
                each.traffic.replication_bytes_out += each.region.length

    def _wait_for(self, needed_bytes: int, max_wait_ms: int) -> None:
        wait = self.services.waiting.wait(
            self.partitions, self.isolation, needed_bytes, max_wait_ms, self._woken, replica=True
        )
        if isinstance(self.session, ReplicaSession):
            self.session.wait(self.services.waiting, wait, needed_bytes)
