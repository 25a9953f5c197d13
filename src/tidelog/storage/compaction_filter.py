"""Compaction, applied: what is left of a batch.

A `BatchFilter` is shown every batch of a log from its start, in order, and answers with the bytes to keep:

- a record stays if its key was not written again later, as far as the `KeyMap` reaches; records behind that all stay;
- a tombstone stays for delete.retention.ms after the first pass that saw it (KIP-534: that pass writes the time of its
  end, the delete horizon, into the base timestamp and sets bit 6 of the attributes);
- data of an aborted transaction goes; a marker goes once a pass meets no data of its transaction, and then after the
  same retention, so that a reader between the two is not led astray;
- the last batch of a live producer stays, if need be without records, because it carries the producer's sequence; so
  does the last batch of the round, which carries the offset that cleaning has reached.

Offsets, codec, producer fields and the offsets at both ends of a batch never change.  A batch that keeps all its
records is passed on as it is, byte for byte.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.kernel import decode_records, encode_records
from tidelog.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    NO_TIMESTAMP,
    BatchHeader,
    records_of,
)
from tidelog.records.builder import assemble
from tidelog.records.compression import DECOMPRESSED_LIMIT_BYTES, compress
from tidelog.records.control import control_type
from tidelog.storage.keymap import KeyMap
from tidelog.storage.txnindex import AbortedTransaction

_ABORT, _COMMIT = 0, 1  # the types of a marker (Kafka's ControlRecordType)

_UNFOLDED_BYTES = 4 * DECOMPRESSED_LIMIT_BYTES
"""A compressed batch may become so large in the worker: more than topics accept, unless max.message.bytes is huge."""

_Record = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class LastBatch(NamedTuple):
    """What a live producer wrote last."""

    last_data_offset: int
    """-1 if it has only written markers."""
    epoch: int


class Transactions:
    """Follows the transactions of a log while its batches are read in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_data: set[int] = set()
        self._committed_with_data: set[int] = set()
        self.kept: list[AbortedTransaction] = []
        """Aborted transactions whose marker and data were met: entries of the new transaction index."""

    def meet_data(self, header: BatchHeader) -> bool:
        """Take note of a batch of records; whether its transaction was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._aborted_with_data.add(header.producer_id)
            return True
        self._committed_with_data.add(header.producer_id)
        return False

    def meet_marker(self, header: BatchHeader, kind: int | None) -> bool:
        """Take note of a marker (None: one already emptied); whether it marks the end of nothing."""
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        if kind == _COMMIT:
            had_data = producer_id in self._committed_with_data
            self._committed_with_data.discard(producer_id)
            return not had_data
        if kind == _ABORT:
            transaction = self._aborted.pop(producer_id, None)
            had_data = producer_id in self._aborted_with_data
            self._aborted_with_data.discard(producer_id)
            if transaction and had_data:
                self.kept.append(transaction)
                return False
            return True
        return kind is None

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            transaction = self._waiting.pop()
            self._aborted.setdefault(transaction.producer_id, transaction)


class Reach:
    """Fills a `KeyMap` from the dirty batches, in order, and says how far it got."""

    def __init__(self, keys: KeyMap, transactions: Transactions, first_dirty_offset: int) -> None:
        self.latest_offset = first_dirty_offset - 1
        """Every key written from the first dirty offset up to here is in the map."""
        self._first_dirty_offset = first_dirty_offset
        self._keys = keys
        self._transactions = transactions

    def add(self, buf: memoryview, position: int, header: BatchHeader) -> bool:
        """Map the keys of a batch; False if there was no room for all of them."""
        if header.is_control:
            self._transactions.meet_marker(header, _marker_kind(buf, position, header))
        elif not self._transactions.meet_data(header) and header.count:
            put = self._keys.put
            first = self._first_dirty_offset
            for offset, _, key, _, _ in _records(buf, position, header):
                if key is not None and offset >= first and not put(key, offset):
                    self.latest_offset = max(self.latest_offset, offset - 1)
                    return False
        self.advance(header.last_offset)
        return True

    def advance(self, offset: int) -> None:
        """There is nothing to map up to `offset`."""
        self.latest_offset = max(self.latest_offset, offset)


class BatchFilter:
    """Decides of each batch what remains; see the module's docstring."""

    def __init__(
        self,
        *,
        keys: KeyMap,
        latest_offset: int,
        end_of_round: int,
        transactions: Transactions,
        producers: Mapping[int, LastBatch],
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._keys = keys
        self._latest_offset = latest_offset
        self._end_of_round = end_of_round
        self._transactions = transactions
        self._producers = producers
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self.records_read = 0
        self.records_kept = 0

    def keep(self, buf: memoryview, position: int, header: BatchHeader) -> memoryview | None:
        """What is to be written for the batch at `position`; None for nothing."""
        self.records_read += header.count
        if header.is_control:
            kept = self._keep_marker(buf, position, header)
        elif self._transactions.meet_data(header):
            kept = None
        else:
            kept = self._keep_records(buf, position, header)
        if kept is None and self._must_stay(header):
            return _emptied(header)
        return kept

    def _keep_marker(
        self, buf: memoryview, position: int, header: BatchHeader
    ) -> memoryview | None:
        kind = _marker_kind(buf, position, header)
        ends_nothing = self._transactions.meet_marker(header, kind)
        if kind is None or (ends_nothing and self._past_horizon(header)):
            return None
        self.records_kept += header.count
        if ends_nothing and not header.has_delete_horizon:
            return _rebuilt(header, _records(buf, position, header), self._horizon_ms)
        return buf[position : position + header.size]

    def _keep_records(
        self, buf: memoryview, position: int, header: BatchHeader
    ) -> memoryview | None:
        if header.count == 0:
            return None
        original = buf[position : position + header.size]
        latest = self._latest_offset
        if header.base_offset > latest:
            self.records_kept += header.count
            return original
        get, drop_tombstones = self._keys.get, self._past_horizon(header)
        records = _records(buf, position, header)
        kept = [
            record
            for record in records
            if record[0] > latest
            or (
                (key := record[2]) is not None
                and record[0] >= get(key)
                and not (drop_tombstones and record[3] is None)
            )
        ]
        self.records_kept += len(kept)
        if not kept:
            return None
        # The retention of a tombstone begins when what it deletes has gone: not before the map has reached it.
        reached = header.last_offset <= latest
        marks = reached and not header.has_delete_horizon and any(each[3] is None for each in kept)
        if len(kept) == len(records) and not marks:
            return original
        return _rebuilt(header, kept, self._horizon_ms if marks else None)

    def _past_horizon(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def _must_stay(self, header: BatchHeader) -> bool:
        if header.last_offset + 1 == self._end_of_round:
            return True
        last = self._producers.get(header.producer_id) if header.has_producer else None
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.epoch


def _records(buf: memoryview, position: int, header: BatchHeader) -> list[_Record]:
    return decode_records(*records_of(buf, position, header, limit_bytes=_UNFOLDED_BYTES))


def _marker_kind(buf: memoryview, position: int, header: BatchHeader) -> int | None:
    """The type of a control batch; None if an earlier pass has emptied it."""
    if header.count == 0:
        return None
    return control_type(_records(buf, position, header)[0][2])


def _emptied(header: BatchHeader) -> memoryview:
    """The batch without records: it keeps its offsets, its producer's fields and its largest timestamp."""
    emptied = header._replace(
        attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON),
        base_timestamp=NO_TIMESTAMP,
        count=0,
    )
    return memoryview(assemble(emptied, b""))


def _rebuilt(
    header: BatchHeader, records: Sequence[_Record], delete_horizon_ms: int | None
) -> memoryview:
    """The batch with these of its records, and a delete horizon unless None (then: as before)."""
    attributes = header.attributes
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
        attributes |= DELETE_HORIZON
    elif header.has_delete_horizon:
        base_timestamp = header.base_timestamp
    else:
        base_timestamp = records[0][1]
    # With LogAppendTime the largest timestamp is that of the append, whatever the records say.
    largest = max(each[1] for each in records)
    rebuilt = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp if header.is_log_append_time else largest,
        count=len(records),
    )
    body = encode_records(
        [each[1:] for each in records],
        base_timestamp,
        [each[0] - header.base_offset for each in records],
    )
    return memoryview(assemble(rebuilt, compress(header.codec, body)))
