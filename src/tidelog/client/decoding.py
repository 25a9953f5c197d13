"""From the bytes of a fetch to messages: pure, and run in the reader's thread.

A fetch may begin with a batch that starts before the asked offset and end with half a batch; both are cut off here.
With `read_committed` the broker says which transactions in the range were aborted, and it is the reader who drops
them: from a transaction's first offset on, a producer's transactional batches are dropped until its marker.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from tidelog.client.message import Message
from tidelog.errors import CorruptMessage
from tidelog.kernel import check_batch, decode_messages, decode_records
from tidelog.kernel.primitives import Buffer
from tidelog.names import TopicPartition
from tidelog.records.batch import HEADER_BYTES, BatchHeader, iterate_batches, records_of
from tidelog.records.compression import Codec, decompress_into
from tidelog.records.control import control_type

Deserializer = Callable[[bytes], Any]

_ABORT = 0

_KEPT_BYTES = 8 * 1024 * 1024
"""A buffer that is larger is given back when it is not needed."""


class Chunk(NamedTuple):
    """What one fetch brought for one partition."""

    partition: TopicPartition
    fetch_offset: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...] | None
    """Producer id and first offset of aborted transactions; None for those who read everything."""
    high_watermark: int
    leader_epoch: int = -1
    """In which all of it was written; -1 if it is of several."""


class Unfolding:
    """Unfolds batches one behind the other into one buffer, for one reader, who uses it again and again."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._used = 0

    def unfold(self, codec: Codec, data: memoryview) -> tuple[bytearray, int, int]:
        """Where the unfolded bytes are, until `clear`."""
        start = self._used
        self._used = decompress_into(codec, data, self._buffer, start)
        return self._buffer, start, self._used

    def clear(self) -> None:
        """What was unfolded is not needed any more."""
        self._used = 0
        if len(self._buffer) > _KEPT_BYTES:
            self._buffer = bytearray()


def decode_chunk(
    chunk: Chunk,
    *,
    check_crcs: bool = True,
    unfolding: Unfolding | None = None,
) -> list[Message]:
    """The messages of a chunk from its fetch offset on."""
    topic, partition = chunk.partition
    first = chunk.fetch_offset
    aborted = Aborted(chunk.aborted) if chunk.aborted else None
    unfolding = unfolding or Unfolding()
    unfolding.clear()  # if the one before did not come to its end
    found: list[Message] = []
    for pos, header in iterate_batches(chunk.records):
        if check_crcs:
            _check(chunk, pos, header)
        if aborted is not None and aborted.hides(chunk.records, pos, header):
            continue
        if header.is_control or header.last_offset < first or not header.count:
            continue
        buffer, start, end = records_in(chunk.records, pos, header, unfolding)
        stamp = header.max_timestamp if header.is_log_append_time else -1
        found += decode_messages(
            Message,
            topic,
            partition,
            buffer,
            start,
            end,
            header.count,
            header.base_offset,
            header.base_timestamp,
            first,
            stamp,
        )
        unfolding.clear()
    return found


def records_in(
    records: memoryview, pos: int, header: BatchHeader, unfolding: Unfolding
) -> tuple[Buffer, int, int]:
    """Where the uncompressed records of the batch at `pos` are."""
    start, end = pos + HEADER_BYTES, pos + header.size
    if header.codec is Codec.NONE:
        return records, start, end
    return unfolding.unfold(header.codec, records[start:end])


class Aborted:
    """Walks the list of aborted transactions along with the batches."""

    def __init__(self, transactions: tuple[tuple[int, int], ...]) -> None:
        self._coming = sorted(transactions, key=lambda each: each[1], reverse=True)
        self._open: set[int] = set()

    def hides(self, records: memoryview, pos: int, header: BatchHeader) -> bool:
        """Whether this batch belongs to an aborted transaction; must see the batches in order."""
        while self._coming and self._coming[-1][1] <= header.last_offset:
            self._open.add(self._coming.pop()[0])
        if header.is_control:
            rows = decode_records(*records_of(records, pos, header))
            if rows and control_type(rows[0][2]) == _ABORT:
                self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open


def _check(chunk: Chunk, pos: int, header: BatchHeader) -> None:
    try:
        check_batch(chunk.records, pos, pos + header.size)
    except CorruptMessage as error:
        raise CorruptMessage(
            f"the batch at offset {header.base_offset} of {chunk.partition} is damaged: {error}"
        ) from None
