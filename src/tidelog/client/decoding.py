"""From the bytes of a fetch to messages: pure, and run in the reader's thread.

A fetch may begin with a batch that starts before the asked offset and end with half a batch; both are cut off here.
With `read_committed` the broker says which transactions in the range were aborted, and it is the reader who drops
them: from a transaction's first offset on, a producer's transactional batches are dropped until its marker.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from tidelog.client.message import Message
from tidelog.errors import CorruptMessage
from tidelog.kernel import check_batch, decode_records
from tidelog.names import TopicPartition
from tidelog.records.batch import BatchHeader, iterate_batches, records_of
from tidelog.records.control import control_type

Deserializer = Callable[[bytes], Any]

_ABORT = 0


class Chunk(NamedTuple):
    """What one fetch brought for one partition."""

    partition: TopicPartition
    fetch_offset: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...] | None
    """Producer id and first offset of aborted transactions; None for those who read everything."""
    high_watermark: int


def decode_chunk(
    chunk: Chunk,
    *,
    check_crcs: bool = True,
    key_deserializer: Deserializer | None = None,
    value_deserializer: Deserializer | None = None,
) -> list[Message]:
    """The messages of a chunk from its fetch offset on."""
    topic, partition = chunk.partition
    first = chunk.fetch_offset
    aborted = _Aborted(chunk.aborted) if chunk.aborted is not None else None
    found: list[Message] = []
    for pos, header in iterate_batches(chunk.records):
        if check_crcs:
            _check(chunk, pos, header)
        if aborted is not None and aborted.hides(chunk.records, pos, header):
            continue
        if header.is_control or header.last_offset < first:
            continue
        rows = decode_records(*records_of(chunk.records, pos, header))
        if header.base_offset < first:
            rows = [row for row in rows if row[0] >= first]
        if header.is_log_append_time:
            stamp = header.max_timestamp
            rows = [(row[0], stamp, row[2], row[3], row[4]) for row in rows]
        make = tuple.__new__  # what a NamedTuple does, without the call in between
        found += [make(Message, (topic, partition, *row)) for row in rows]
    if key_deserializer is not None or value_deserializer is not None:
        return [_deserialized(each, key_deserializer, value_deserializer) for each in found]
    return found


class _Aborted:
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


def _deserialized(
    message: Message, key: Deserializer | None, value: Deserializer | None
) -> Message:
    changed: dict[str, Any] = {}
    if key is not None and message.key is not None:
        changed["key"] = key(message.key)
    if value is not None and message.value is not None:
        changed["value"] = value(message.value)
    return message._replace(**changed)
