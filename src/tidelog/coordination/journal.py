"""A coordinator's journal over a partition of its internal topic."""

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic, TypeVar

from tidelog.clock import Clock
from tidelog.cluster.partition import Partition
from tidelog.coordination.runtime import EndOfTransaction, Marker
from tidelog.errors import InvalidRequest, ProtocolError
from tidelog.records.batch import BatchHeader, iterate_batches, parse_header, read_records
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control import EndTransactionMarker, parse_marker
from tidelog.storage.log import Appended

_log = logging.getLogger(__name__)

R = TypeVar("R")

_ALL = -1
"""What a coordinator promises must outlive this broker."""


class PartitionJournal(Generic[R]):
    """Appends records as batches to a partition, and reads them all back."""

    def __init__(
        self,
        partition: Partition,
        *,
        clock: Clock,
        encode: Callable[[R], tuple[bytes, bytes | None]],
        decode: Callable[[bytes, bytes | None, int], R | None],
        load_bytes: int,
    ) -> None:
        self._partition = partition
        self._clock = clock
        self._encode = encode
        self._decode = decode
        self._load_bytes = load_bytes

    def append(self, records: Sequence[R]) -> int:
        """Append `records` as one batch; returns the offset of the last."""
        return self._write(build_batch(self._rows(records)))

    def append_in_transaction(self, records: Sequence[R], producer: tuple[int, int]) -> int:
        """Append `records` as one batch of the producer's open transaction."""
        producer_id, producer_epoch = producer
        # No sequence: the batch comes from a coordinator, which does not repeat itself.
        return self._write(
            build_batch(
                self._rows(records),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transactional=True,
            )
        )

    def append_marker(self, marker: EndOfTransaction) -> int:
        """Append the end of a transaction; returns its offset."""
        return append_marker(self._partition, marker, self._clock.now_ms()).last_offset

    def _rows(self, records: Sequence[R]) -> list[NewRecord]:
        now_ms = self._clock.now_ms()
        try:
            return [(now_ms, *self._encode(each), ()) for each in records]
        except struct.error as error:
            # Flexible requests carry longer strings than the records of old have room for.
            raise InvalidRequest(f"a name is too long to be stored: {error}") from error

    def _write(self, batch: bytearray) -> int:
        header = parse_header(batch, 0)
        return self._partition.append(batch, header, acks=_ALL, coordinator=True).last_offset

    def committed(self, offset: int) -> "asyncio.Future[None] | None":
        """See `Journal.committed`."""
        return None if offset < 0 else self._partition.committed(offset)

    def all_committed(self) -> "asyncio.Future[None] | None":
        """See `Journal.all_committed`."""
        return self.committed(self._partition.log_end_offset - 1)

    async def scan(self) -> AsyncIterator[list[R | Marker]]:
        """Everything from the log's start to its end, a read at a time."""
        log = self._partition.log
        offset, end = log.log_start_offset, log.log_end_offset
        while offset < end:
            region = log.read(offset, self._load_bytes, up_to=end)
            if region is None:
                return
            data = region.read()
            chunk: list[R | Marker] = []
            before = offset
            for pos, header in iterate_batches(data):
                chunk += self._records_of(data, pos, header)
                offset = header.last_offset + 1
            if offset == before:
                return
            yield chunk

    def _records_of(self, data: bytes, pos: int, header: BatchHeader) -> list[R | Marker]:
        if header.count == 0:
            return []
        rows = read_records(data, pos)
        if header.is_control:
            marker = parse_marker(rows[0].key, rows[0].value)
            return [] if marker is None else [Marker(header.producer_id, marker.commit)]
        producer_id = header.producer_id if header.is_transactional else -1
        found: list[R | Marker] = []
        for row in rows:
            if row.key is None:
                raise ProtocolError(f"the record at offset {row.offset} has no key")
            try:
                made = self._decode(row.key, row.value, producer_id)
            except ProtocolError as error:
                topic = self._partition.topic
                _log.error("a record of %s cannot be read and is skipped: %s", topic, error)
                continue
            if made is not None:
                found.append(made)
        return found


def append_marker(partition: Partition, end: EndOfTransaction, now_ms: int) -> Appended:
    """Write the end of a transaction into a partition."""
    marker = EndTransactionMarker(commit=end.commit, coordinator_epoch=end.coordinator_epoch)
    batch = marker.build(
        producer_id=end.producer_id, producer_epoch=end.producer_epoch, timestamp_ms=now_ms
    )
    return partition.append(batch, parse_header(batch, 0), acks=_ALL, coordinator=True)
