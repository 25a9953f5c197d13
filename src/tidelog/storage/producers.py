"""What a log knows of its idempotent and transactional producers.

For each producer id: its epoch and its last five batches, so that a repeated batch is recognised and answered with its
original offset, and a missing one is noticed.  For each open transaction: where it began, which holds back the last
stable offset.  All of it can be rebuilt from the log; `snapshots.py` saves the work.

The rules are Kafka's (ProducerAppendInfo, ProducerStateManager).  `check` decides before the write and changes nothing;
`update` and `end_transaction` follow the write.
"""

from typing import NamedTuple

from tidelog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from tidelog.records.batch import BatchHeader
from tidelog.storage.snapshots import SnapshotEntry

BATCHES_KEPT = 5
"""A producer may have five requests in flight, so any of its last five batches may come again."""

MAX_SEQUENCE = (1 << 31) - 1
NO_EPOCH = -1
NO_SEQUENCE = -1


class WrittenBatch(NamedTuple):
    """A batch that a producer has written."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def base_sequence(self) -> int:
        return _minus(self.last_sequence, self.offset_delta)


_NO_BATCH = WrittenBatch(NO_SEQUENCE, -1, 0, -1)


class Producer:
    """State of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "transaction_first_offset",
    )

    def __init__(self, epoch: int, last_timestamp: int) -> None:
        self.epoch = epoch
        self.batches: list[WrittenBatch] = []
        """At most five, oldest first, all of the current epoch."""
        self.coordinator_epoch = -1
        self.last_timestamp = last_timestamp
        self.transaction_first_offset = -1
        """First offset of its open transaction; -1 without one."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def renew(self, epoch: int) -> None:
        """Sequences begin anew with every epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = []


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of its marker."""
    aborted: bool
    last_stable_offset: int
    """Where the last stable offset goes once the marker is committed."""


class Producers:
    """The producers of one log."""

    __slots__ = ("_open", "_undecided", "by_id", "end_offset")

    def __init__(self, end_offset: int = 0) -> None:
        self.by_id: dict[int, Producer] = {}
        self.end_offset = end_offset
        """The state covers the log up to here."""
        self._open: dict[int, int] = {}
        """First offset → producer id of the open transactions, in the order they began."""
        self._undecided: dict[int, int] = {}
        """First offset → marker's offset of ended transactions whose marker is above the high watermark."""

    # ------------------------------------------------------------------ appends

    def check(
        self, header: BatchHeader, *, client: bool, coordinator_epoch: int = -1
    ) -> WrittenBatch | None:
        """Raise unless the batch may follow; a repeated batch returns the original.

        `client` is False for a coordinator's batch, whose sequence is not checked.
        """
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            return None
        epoch = header.producer_epoch
        if client and epoch == producer.epoch:
            repeated = _find(producer, header)
            if repeated is not None:
                return repeated
        if epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} has epoch {epoch}, but {producer.epoch} was seen"
            )
        if header.is_control:
            if coordinator_epoch < producer.coordinator_epoch:
                raise TransactionCoordinatorFenced(
                    f"coordinator epoch {coordinator_epoch} is older than {producer.coordinator_epoch}"
                )
            return None
        if client:
            _check_sequence(producer, header)
        if producer.transaction_first_offset >= 0 and not header.is_transactional:
            raise InvalidTxnState(
                f"producer {header.producer_id} has an open transaction; this batch is outside of it"
            )
        return None

    def update(self, header: BatchHeader, base_offset: int, last_offset: int) -> None:
        """A data batch of a producer was written at these offsets."""
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            producer = Producer(header.producer_epoch, header.max_timestamp)
            self.by_id[header.producer_id] = producer
        producer.renew(header.producer_epoch)
        if len(producer.batches) == BATCHES_KEPT:
            del producer.batches[0]
        producer.batches.append(
            WrittenBatch(
                header.last_sequence, last_offset, last_offset - base_offset, header.max_timestamp
            )
        )
        producer.last_timestamp = header.max_timestamp
        if header.is_transactional and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = base_offset
            self._open[base_offset] = header.producer_id

    def end_transaction(
        self, header: BatchHeader, offset: int, *, coordinator_epoch: int, aborted: bool
    ) -> CompletedTransaction | None:
        """A marker was written at `offset`; None if it ended a transaction without records here."""
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            producer = Producer(header.producer_epoch, header.max_timestamp)
            self.by_id[header.producer_id] = producer
        first_offset = producer.transaction_first_offset
        producer.renew(header.producer_epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.transaction_first_offset = -1
        producer.last_timestamp = header.max_timestamp
        if first_offset < 0:
            return None
        self._open.pop(first_offset, None)
        self._undecided[first_offset] = offset
        stable = min(self._open, default=offset + 1)
        return CompletedTransaction(header.producer_id, first_offset, offset, aborted, stable)

    # ------------------------------------------------------------------ stable offset

    def first_unstable_offset(self) -> int | None:
        """First offset of a transaction that is open, or whose marker is not committed; None without one."""
        if not self._open and not self._undecided:
            return None
        return min(min(self._open, default=1 << 63), min(self._undecided, default=1 << 63))

    def open_transactions(self) -> dict[int, int]:
        """First offset → producer id."""
        return dict(self._open)

    def committed(self, high_watermark: int) -> None:
        """Markers below the high watermark decide for good."""
        if self._undecided:
            self._undecided = {
                first: marker
                for first, marker in self._undecided.items()
                if marker >= high_watermark
            }

    # ------------------------------------------------------------------ life

    def expire(self, now_ms: int, expiration_ms: int) -> list[int]:
        """Forget producers that have been silent too long and have no open transaction; their ids."""
        expired = [
            producer_id
            for producer_id, each in self.by_id.items()
            if each.transaction_first_offset < 0 and now_ms - each.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.by_id[producer_id]
        return expired

    def clear(self, end_offset: int) -> None:
        self.by_id.clear()
        self._open.clear()
        self._undecided.clear()
        self.end_offset = end_offset

    def to_snapshot(self) -> list[SnapshotEntry]:
        """All that is known, with an entry for each batch of a producer, the last one last.

        Kafka keeps one entry a producer, and so forgets the others when it restarts: a client that had several batches on
        their way then writes them twice.  Reading ours, it takes the last entry, which is what it would have written.
        """
        return [
            SnapshotEntry(
                producer_id,
                each.epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.offset_delta,
                each.last_timestamp,
                each.coordinator_epoch,
                each.transaction_first_offset,
            )
            for producer_id, each in self.by_id.items()
            for batch in each.batches or [_NO_BATCH]
        ]

    def load(
        self, entries: list[SnapshotEntry], end_offset: int, *, now_ms: int, expiration_ms: int
    ) -> None:
        """Replace the state by a snapshot's; those that have expired meanwhile are left out."""
        self.clear(end_offset)
        for entry in entries:
            known = self.by_id.get(entry.producer_id)
            if known is not None:
                known.batches.append(WrittenBatch(*entry[2:6]))
                continue
            producer = Producer(entry.epoch, entry.timestamp)
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.transaction_first_offset = entry.transaction_first_offset
            if entry.last_offset >= 0:
                producer.batches.append(WrittenBatch(*entry[2:6]))
            if entry.transaction_first_offset >= 0:
                self._open[entry.transaction_first_offset] = entry.producer_id
            elif now_ms - entry.timestamp >= expiration_ms:
                continue
            self.by_id[entry.producer_id] = producer
        self._open = dict(sorted(self._open.items()))


def _find(producer: Producer, header: BatchHeader) -> WrittenBatch | None:
    base, last = header.base_sequence, header.last_sequence
    for batch in producer.batches:
        if batch.last_sequence == last and batch.base_sequence == base:
            return batch
    return None


def _check_sequence(producer: Producer, header: BatchHeader) -> None:
    base = header.base_sequence
    if header.producer_epoch != producer.epoch:
        if base != 0:
            raise OutOfOrderSequenceNumber(
                f"producer {header.producer_id} begins epoch {header.producer_epoch} "
                f"with sequence {base} instead of 0"
            )
        return
    expected = _plus(producer.last_sequence, 1)
    if base != expected:
        raise OutOfOrderSequenceNumber(
            f"producer {header.producer_id} sent sequence {base}, {expected} was expected"
        )


def _plus(sequence: int, delta: int) -> int:
    # After 2^31 - 1 comes 0.
    return (sequence + delta) & MAX_SEQUENCE if sequence >= 0 else sequence + delta


def _minus(sequence: int, delta: int) -> int:
    return (sequence - delta) & MAX_SEQUENCE if sequence >= 0 else sequence
