"""Hand-laid decoders of the two hot requests, Produce 9-12 and Fetch 12-17.

They give plain tuples, and the places of records in the frame instead of the records.  Every other version goes
through the generated codec of `tidelog.protocol`; tests hold the two against each other.  Unknown tagged fields
are skipped, and what follows the request in the frame is ignored, as Kafka does.

`decode_produce` gives

    (transactional_id | None, acks, timeout_ms,
     [(topic, [(partition, records_start, records_end), …]), …])

where null records have start and end -1.  `decode_fetch` gives

    (replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
     [(topic, [(partition, current_leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset,
                partition_max_bytes, directory_id), …]), …],
     [(forgotten topic, [partition, …]), …],
     rack_id, cluster_id | None)

where a topic is its name in version 12 and its id, 16 bytes, from 13 on, and directory_id is 16 bytes.  All arrays together
may have `most` elements: what a few megabytes can ask for is otherwise a hundred times as large in memory.
"""

import tidelog.kernel.primitives as primitives
import tidelog.kernel.varints as varints
from tidelog.errors import ProtocolError
from tidelog.kernel.primitives import Buffer

ProducePartition = tuple[int, int, int]
ProduceParts = tuple[str | None, int, int, list[tuple[str, list[ProducePartition]]]]
FetchPartition = tuple[int, int, int, int, int, int, bytes]
FetchTopics = list[tuple[str | bytes, list[FetchPartition]]]
ForgottenTopics = list[tuple[str | bytes, list[int]]]
FetchParts = tuple[
    int, int, int, int, int, int, int, int, FetchTopics, ForgottenTopics, str, str | None
]

_NO_DIRECTORY = bytes(16)
_ANY = (1 << 62) - 1


def decode_produce(frame: Buffer, pos: int, version: int, most: int = _ANY) -> ProduceParts:
    """The body of a Produce request of version 9 to 12 that begins at `pos`."""
    view = primitives.view(frame)
    data = primitives.start(view)
    end = primitives.length(view)
    if version < 9 or version > 12:
        raise ValueError(f"Produce {version} has no hand-laid decoder")
    size, pos = _text_size(data, pos, end)
    transactional_id = None
    if size >= 0:
        transactional_id = _text(data, pos, size)
        pos += size
    _need(pos, 6, end)
    acks = primitives.i16(data, pos)
    timeout_ms = primitives.i32(data, pos + 2)
    topic_count, pos = _count(data, pos + 6, end)
    left = _spend(most, topic_count)
    topics = []
    for _ in range(topic_count):
        size, pos = _text_size(data, pos, end)
        name = _text(data, pos, size)
        pos += size
        partition_count, pos = _count(data, pos, end)
        left = _spend(left, partition_count)
        partitions = []
        for _ in range(partition_count):
            _need(pos, 4, end)
            index = primitives.i32(data, pos)
            size, pos = varints.uvarint(data, pos + 4, end)
            if size == 0:
                partitions.append((index, -1, -1))
            else:
                _need(pos, size - 1, end)
                partitions.append((index, pos, pos + size - 1))
                pos += size - 1
            pos = _skip_tags(data, pos, end)
        pos = _skip_tags(data, pos, end)
        topics.append((name, partitions))
    _skip_tags(data, pos, end)
    return transactional_id, acks, timeout_ms, topics


def decode_fetch(frame: Buffer, pos: int, version: int, most: int = _ANY) -> FetchParts:
    """The body of a Fetch request of version 12 to 17 that begins at `pos`."""
    view = primitives.view(frame)
    data = primitives.start(view)
    end = primitives.length(view)
    if version < 12 or version > 17:
        raise ValueError(f"Fetch {version} has no hand-laid decoder")
    replica_id = -1
    if version < 15:
        _need(pos, 4, end)
        replica_id = primitives.i32(data, pos)
        pos += 4
    _need(pos, 21, end)
    max_wait_ms = primitives.i32(data, pos)
    min_bytes = primitives.i32(data, pos + 4)
    max_bytes = primitives.i32(data, pos + 8)
    isolation_level = primitives.i8(data, pos + 12)
    session_id = primitives.i32(data, pos + 13)
    session_epoch = primitives.i32(data, pos + 17)
    topic_count, pos = _count(data, pos + 21, end)
    left = _spend(most, topic_count)
    topics = []
    for _ in range(topic_count):
        topic, pos = _topic(data, pos, end, version)
        partitions, pos = _fetch_partitions(data, pos, end, version, left)
        left -= len(partitions)
        topics.append((topic, partitions))
    forgotten_count, pos = _count(data, pos, end)
    left = _spend(left, forgotten_count)
    forgotten = []
    for _ in range(forgotten_count):
        topic, pos = _topic(data, pos, end, version)
        indexes, pos = _indexes(data, pos, end, left)
        left -= len(indexes)
        forgotten.append((topic, indexes))
    size, pos = _text_size(data, pos, end)
    rack_id = _text(data, pos, size)
    pos += size
    cluster_id, state_pos = _fetch_tags(data, pos, end, version)
    replica_epoch = -1
    if state_pos >= 0:
        replica_id = primitives.i32(data, state_pos)
        replica_epoch = primitives.i64(data, state_pos + 4)
    return (
        replica_id,
        replica_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
        cluster_id,
    )


def _fetch_partitions(
    data: primitives.Data, pos: int, end: int, version: int, left: int
) -> tuple[list[FetchPartition], int]:
    count, pos = _count(data, pos, end)
    _spend(left, count)
    partitions = []
    for _ in range(count):
        _need(pos, 33, end)
        index = primitives.i32(data, pos)
        leader_epoch = primitives.i32(data, pos + 4)
        offset = primitives.i64(data, pos + 8)
        last_epoch = primitives.i32(data, pos + 16)
        log_start = primitives.i64(data, pos + 20)
        max_bytes = primitives.i32(data, pos + 28)
        directory_id = _NO_DIRECTORY
        pos += 32
        if data[pos] == 0:
            pos += 1
        elif version >= 17:
            directory_id, pos = _directory_tag(data, pos, end)
        else:
            pos = _skip_tags(data, pos, end)
        partitions.append(
            (index, leader_epoch, offset, last_epoch, log_start, max_bytes, directory_id)
        )
    return partitions, _skip_tags(data, pos, end)


def _indexes(data: primitives.Data, pos: int, end: int, left: int) -> tuple[list[int], int]:
    count, pos = _count(data, pos, end)
    _spend(left, count)
    _need(pos, 4 * count, end)
    indexes = []
    for _ in range(count):
        indexes.append(primitives.i32(data, pos))
        pos += 4
    return indexes, _skip_tags(data, pos, end)


def _fetch_tags(data: primitives.Data, pos: int, end: int, version: int) -> tuple[str | None, int]:
    """The cluster id (tag 0) and where the replica state (tag 1, from version 15) lies, or -1."""
    cluster_id = None
    state_pos = -1
    tags, pos = varints.uvarint(data, pos, end)
    last = -1
    for _ in range(tags):
        tag, pos = varints.uvarint(data, pos, end)
        size, pos = varints.uvarint(data, pos, end)
        _need(pos, size, end)
        _in_order(last, tag)
        last = tag
        stop = pos + size
        if tag == 0:
            size, pos = _text_size(data, pos, stop)
            if size >= 0:
                cluster_id = _text(data, pos, size)
                pos += size
            _filled(tag, pos, stop)
        elif tag == 1 and version >= 15:
            _need(pos, 12, stop)
            state_pos = pos
            pos = _skip_tags(data, pos + 12, stop)
            _filled(tag, pos, stop)
        pos = stop
    return cluster_id, state_pos


def _directory_tag(data: primitives.Data, pos: int, end: int) -> tuple[bytes, int]:
    directory_id = _NO_DIRECTORY
    tags, pos = varints.uvarint(data, pos, end)
    last = -1
    for _ in range(tags):
        tag, pos = varints.uvarint(data, pos, end)
        size, pos = varints.uvarint(data, pos, end)
        _need(pos, size, end)
        _in_order(last, tag)
        last = tag
        if tag == 0:
            _filled(tag, pos + 16, pos + size)
            directory_id = primitives.copy(data, pos, pos + 16)
        pos += size
    return directory_id, pos


def _skip_tags(data: primitives.Data, pos: int, end: int) -> int:
    """The position after the tagged fields at `pos`."""
    tags, pos = varints.uvarint(data, pos, end)
    last = -1
    for _ in range(tags):
        tag, pos = varints.uvarint(data, pos, end)
        size, pos = varints.uvarint(data, pos, end)
        _need(pos, size, end)
        _in_order(last, tag)
        last = tag
        pos += size
    return pos


def _topic(data: primitives.Data, pos: int, end: int, version: int) -> tuple[str | bytes, int]:
    if version < 13:
        size, pos = _text_size(data, pos, end)
        return _text(data, pos, size), pos + size
    _need(pos, 16, end)
    return primitives.copy(data, pos, pos + 16), pos + 16


def _text_size(data: primitives.Data, pos: int, end: int) -> tuple[int, int]:
    """How many bytes the text before which `pos` stands has, -1 for null, and where they begin."""
    size, pos = varints.uvarint(data, pos, end)
    size -= 1
    _need(pos, size, end)
    if size > 0x7FFF:
        raise ProtocolError(f"a text of {size} bytes at {pos} is longer than the protocol allows")
    return size, pos


def _text(data: primitives.Data, pos: int, size: int) -> str:
    if size < 0:
        raise ProtocolError(f"the text before {pos} may not be null")
    try:
        return primitives.text(data, pos, pos + size)
    except UnicodeDecodeError:
        raise ProtocolError(f"the text at {pos} is not UTF-8") from None


def _count(data: primitives.Data, pos: int, end: int) -> tuple[int, int]:
    """The length of an array that may not be null; each element takes a byte at least."""
    count, pos = varints.uvarint(data, pos, end)
    if count == 0:
        raise ProtocolError(f"the array before {pos} may not be null")
    if count - 1 > end - pos:
        raise ProtocolError(
            f"an array claims {count - 1} elements where {end - pos} bytes are left"
        )
    return count - 1, pos


def _spend(left: int, count: int) -> int:
    """What is left of the elements that a request may have, after an array of `count`."""
    if count > left:
        raise ProtocolError(f"an array of {count} elements is more than one request may have")
    return left - count


def _need(pos: int, size: int, end: int) -> None:
    if pos < 0 or size > end - pos:
        raise ProtocolError(f"{size} bytes are needed at {pos}; {max(end - pos, 0)} are left")


def _in_order(last: int, tag: int) -> None:
    if tag <= last:
        raise ProtocolError(f"tag {tag} follows tag {last}")


def _filled(tag: int, pos: int, stop: int) -> None:
    if pos != stop:
        raise ProtocolError(f"tag {tag} has another length than its field")
