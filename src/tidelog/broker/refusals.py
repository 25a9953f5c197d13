"""Batches of idempotent producers that were refused for a reason that passes, so that those behind them are refused too.

A producer has several batches on their way.  If one of them is refused because the disk is full, too few replicas are in
sync or the partition is not led here yet, and a moment later the next would be taken, that one is out of order.  To say so
is right but does harm: librdkafka then begins a new epoch and sends everything anew that is not acknowledged, also what
was written before and only waits for its commit, and nobody can tell any longer that it is there twice.  And a producer
that is not known yet may begin with any sequence: its second batch would be taken, and the first be out of order for ever.

So a batch behind a refused one gets the same answer as that one, until it comes again, here or to another leader: what this
broker has followed, while it did not lead, is in its log.  A producer that has given it up begins a new epoch; for one that
does not, the refusal is forgotten after a while.
"""

from typing import NamedTuple

from tidelog.cluster.partition import Partition
from tidelog.errors import (
    CorruptMessage,
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from tidelog.records.batch import BatchHeader, parse_header
from tidelog.storage.producers import MAX_SEQUENCE, Producer

FORGOTTEN_AFTER_S = 30.0
"""Longer than what a producer sent before it heard of the refusal can be on its way."""

_PASSING = (KafkaStorageError, NotEnoughReplicas, NotLeaderOrFollower, UnknownTopicOrPartition)


class _Refusal(NamedTuple):
    epoch: int
    sequence: int
    error: KafkaError
    until: float


class Refusals:
    """What was refused lately: the first batch of each producer and partition."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[tuple[str, int, int], _Refusal] = {}
        """By topic, partition and producer id; the oldest first."""

    def __bool__(self) -> bool:
        return bool(self._refused)

    def hold(self, now: float) -> bool:
        """Whether there is any that is not too old."""
        self._forget(now)
        return bool(self._refused)

    def check(self, partition: Partition, header: BatchHeader, now: float) -> None:
        """Raise what was raised for a batch before this one, if that has not come again."""
        key = partition.topic, partition.index, header.producer_id
        refusal = self._refused.get(key)
        if refusal is None:
            return
        written = partition.log.producers.by_id.get(header.producer_id)
        if (
            header.producer_epoch == refusal.epoch
            and now < refusal.until
            and not (written is not None and _is_in(written, refusal))
        ):
            distance = _distance(header.base_sequence, refusal)
            if distance > 0:
                raise refusal.error
            if distance < 0:
                return  # a repeated one: what was refused is still to come
        del self._refused[key]

    def note(
        self, topic: str, index: int, records: memoryview | None, error: KafkaError, now: float
    ) -> None:
        """A batch was refused with `error`."""
        if not isinstance(error, _PASSING) or records is None:
            return
        try:
            header = parse_header(records)
        except CorruptMessage:
            return
        if header.producer_id < 0:
            return
        self._forget(now)
        key = topic, index, header.producer_id
        known = self._refused.get(key)
        if known is not None and (
            header.producer_epoch < known.epoch
            or (header.producer_epoch == known.epoch and _distance(header.base_sequence, known) > 0)
        ):
            return
        self._refused.pop(key, None)
        until = now + FORGOTTEN_AFTER_S
        self._refused[key] = _Refusal(header.producer_epoch, header.base_sequence, error, until)

    def _forget(self, now: float) -> None:
        old = []
        for key, refusal in self._refused.items():
            if now < refusal.until:
                break
            old.append(key)
        for key in old:
            del self._refused[key]


def _is_in(written: Producer, refusal: _Refusal) -> bool:
    """Whether the log has the refused batch, which another leader took, or one of a newer epoch."""
    if written.epoch != refusal.epoch:
        return written.epoch > refusal.epoch
    return bool(written.batches) and _distance(written.last_sequence, refusal) >= 0


def _distance(sequence: int, refusal: _Refusal) -> int:
    """How far the sequence is behind the refused one; negative if it is before it.  After 2^31 - 1 comes 0."""
    ahead = (sequence - refusal.sequence) & MAX_SEQUENCE
    return ahead if ahead <= MAX_SEQUENCE >> 1 else ahead - MAX_SEQUENCE - 1
