"""The records of one uncompressed v2 batch.

    length          varint    of all that follows
    attributes      int8      unused
    timestamp delta varint    to the batch's base timestamp
    offset delta    varint    to the batch's base offset
    key             varint length, -1 for null, and its bytes
    value           likewise
    headers         varint count, then each: key as above but never null (UTF-8), value as above

Varints are zig-zag.  A record is `(offset, timestamp, key, value, headers)` with headers a tuple of
`(name, value)`; to be encoded it is `(timestamp, key, value, headers)`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import tidelog.kernel.primitives as primitives
import tidelog.kernel.varints as varints
from tidelog.errors import InvalidRecord, ProtocolError
from tidelog.kernel.primitives import Buffer

T = TypeVar("T")

Headers = tuple[tuple[str, bytes | None], ...]
DecodedRecord = tuple[int, int, bytes | None, bytes | None, Headers]
NewRecord = tuple[int, Any, Any, Iterable[tuple[str, Any]]]

_FAR = 1 << 62
"""Timestamps and their deltas stay below this, so that their sum never leaves 64 bits."""

_AROUND_BYTES = 64
"""What a record without headers needs at most beside its key and value, and to spare."""


def decode_records(
    buf: Buffer, pos: int, end: int, count: int, base_offset: int, base_timestamp: int
) -> list[DecodedRecord]:
    """All `count` records from `pos` to `end`, which they must fill exactly."""
    return _decode(None, None, None, buf, pos, end, count, base_offset, base_timestamp, -_FAR, -1)


def decode_messages(
    cls: type[T],
    topic: str,
    partition: int,
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    first: int,
    append_time: int,
) -> list[T]:
    """The records from the offset `first` on, each as a `cls` of (topic, partition, offset, timestamp, key, value, headers).

    As `decode_records` otherwise; an `append_time` that is not -1 is the time of all of them.
    """
    if not issubclass(cls, tuple):
        raise TypeError(f"{cls.__name__} is not a tuple")
    return _decode(
        cls,
        topic,
        partition,
        buf,
        pos,
        end,
        count,
        base_offset,
        base_timestamp,
        first,
        append_time,
    )


def _decode(
    cls: Any,
    topic: Any,
    partition: Any,
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    first: int,
    append_time: int,
) -> list[Any]:
    """The records from the offset `first` on: each as a `cls` with topic and partition, or without if there is no class."""
    view = primitives.view(buf)
    if pos < 0 or pos > end or end > primitives.length(view):
        raise InvalidRecord(f"{pos} to {end} lies outside of the buffer")
    data = primitives.window(view, pos, end)
    end -= pos
    pos = 0
    if not (-_FAR <= base_timestamp < _FAR and -_FAR <= base_offset < _FAR):
        raise InvalidRecord(
            f"base offset {base_offset} or timestamp {base_timestamp} is out of range"
        )
    found: list[Any] = []
    headers: Headers
    try:
        for _ in range(count):
            length, pos = varints.varint(data, pos, end)
            if length < 6 or length > end - pos:
                raise InvalidRecord(f"a record claims {length} bytes where {end - pos} are left")
            stop = pos + length
            delta, pos = varints.varint(data, pos + 1, stop)
            if delta >= _FAR or delta < -_FAR:
                raise InvalidRecord(f"a record's timestamp delta is {delta}")
            offset_delta, pos = varints.varint(data, pos, stop)
            if offset_delta > 0x7FFFFFFF or offset_delta < -0x80000000:
                raise InvalidRecord(f"a record's offset delta is {offset_delta}")
            if base_offset + offset_delta < first:
                pos = stop
                continue
            size, pos = varints.varint(data, pos, stop)
            if size > stop - pos or size < -1:
                raise InvalidRecord(f"a key claims {size} bytes where {stop - pos} are left")
            key = None
            if size >= 0:
                key = data[pos : pos + size]
                pos += size
            size, pos = varints.varint(data, pos, stop)
            if size > stop - pos or size < -1:
                raise InvalidRecord(f"a value claims {size} bytes where {stop - pos} are left")
            value = None
            if size >= 0:
                value = data[pos : pos + size]
                pos += size
            size, pos = varints.varint(data, pos, stop)
            headers = ()
            if size:
                headers, pos = _headers(data, pos, stop, size)
            if pos != stop:
                raise InvalidRecord(f"a record is {stop - pos} bytes longer than its fields")
            timestamp = base_timestamp + delta if append_time == -1 else append_time
            offset = base_offset + offset_delta
            if cls is None:
                found.append((offset, timestamp, key, value, headers))
            else:
                found.append(
                    primitives.row(cls, topic, partition, offset, timestamp, key, value, headers)
                )
    except ProtocolError as error:
        raise InvalidRecord(f"a record cannot be read: {error}") from None
    if pos != end:
        raise InvalidRecord(f"{end - pos} bytes follow the last of {count} records")
    return found


def without_key(buf: Buffer, pos: int, end: int, count: int, most: int) -> tuple[int, list[int]]:
    """How many of `count` records have no key, and the index of each of the first `most` of them."""
    view = primitives.view(buf)
    if pos < 0 or pos > end or end > primitives.length(view):
        raise InvalidRecord(f"{pos} to {end} lies outside of the buffer")
    data = primitives.start(view)
    total = 0
    found: list[int] = []
    try:
        for index in range(count):
            length, pos = varints.varint(data, pos, end)
            if length < 6 or length > end - pos:
                raise InvalidRecord(f"a record claims {length} bytes where {end - pos} are left")
            stop = pos + length
            pos += 1
            _, pos = varints.varint(data, pos, stop)
            _, pos = varints.varint(data, pos, stop)
            size, pos = varints.varint(data, pos, stop)
            if size > stop - pos or size < -1:
                raise InvalidRecord(f"a key claims {size} bytes where {stop - pos} are left")
            if size < 0:
                total += 1
                if total <= most:
                    found.append(index)
            pos = stop
    except ProtocolError as error:
        raise InvalidRecord(f"a record cannot be read: {error}") from None
    return total, found


def times_outside(
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_timestamp: int,
    oldest: int,
    newest: int,
    first_delta: int,
    most: int,
    dense: bool,
) -> list[tuple[int, int, int]]:
    """(index, offset delta, timestamp) of the records with a time before `oldest` or after `newest`.

    Those with an offset delta below `first_delta` are passed over, and no more than `most` are looked for.  Every record on
    the way is checked as `decode_records` would, but nothing is made of it: a batch of very many small records costs
    no memory.  With `dense` the offset deltas must count up from 0.
    """
    return _times(
        buf, pos, end, count, base_timestamp, oldest, newest, first_delta, most, dense, False
    )[1]


def refused_times(
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_timestamp: int,
    oldest: int,
    newest: int,
    most: int,
) -> tuple[int, list[tuple[int, int, int]]]:
    """How many records have such a time, and the first `most` as `times_outside` tells them; -1, no time at all, is none.

    All records are checked, and their offset deltas must count up from 0.
    """
    return _times(buf, pos, end, count, base_timestamp, oldest, newest, 0, most, True, True)


def _times(
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_timestamp: int,
    oldest: int,
    newest: int,
    first_delta: int,
    most: int,
    dense: bool,
    whole: bool,
) -> tuple[int, list[tuple[int, int, int]]]:
    """How many there are and the first of them; not `whole`, the search ends with the last that is wanted."""
    view = primitives.view(buf)
    if pos < 0 or pos > end or end > primitives.length(view):
        raise InvalidRecord(f"{pos} to {end} lies outside of the buffer")
    if base_timestamp >= _FAR or base_timestamp < -_FAR:
        raise InvalidRecord(f"base timestamp {base_timestamp} is out of range")
    data = primitives.start(view)
    total = 0
    found: list[tuple[int, int, int]] = []
    try:
        for index in range(count):
            length, pos = varints.varint(data, pos, end)
            if length < 6 or length > end - pos:
                raise InvalidRecord(f"a record claims {length} bytes where {end - pos} are left")
            stop = pos + length
            pos += 1
            delta, pos = varints.varint(data, pos, stop)
            if delta >= _FAR or delta < -_FAR:
                raise InvalidRecord(f"a record's timestamp delta is {delta}")
            offset_delta, pos = varints.varint(data, pos, stop)
            if offset_delta > 0x7FFFFFFF or offset_delta < -0x80000000:
                raise InvalidRecord(f"a record's offset delta is {offset_delta}")
            if dense and offset_delta != index:
                raise InvalidRecord(
                    f"record {index} of the batch has the offset delta {offset_delta}"
                )
            size, pos = varints.varint(data, pos, stop)
            if size > stop - pos or size < -1:
                raise InvalidRecord(f"a key claims {size} bytes where {stop - pos} are left")
            if size > 0:
                pos += size
            size, pos = varints.varint(data, pos, stop)
            if size > stop - pos or size < -1:
                raise InvalidRecord(f"a value claims {size} bytes where {stop - pos} are left")
            if size > 0:
                pos += size
            size, pos = varints.varint(data, pos, stop)
            if size:
                pos = _skip_headers(data, pos, stop, size)
            if pos != stop:
                raise InvalidRecord(f"a record is {stop - pos} bytes longer than its fields")
            timestamp = base_timestamp + delta
            if (timestamp < oldest or timestamp > newest) and offset_delta >= first_delta:
                if whole and timestamp == -1:
                    continue
                total += 1
                if total <= most:
                    found.append((index, offset_delta, timestamp))
                if total >= most and not whole:
                    return total, found
    except ProtocolError as error:
        raise InvalidRecord(f"a record cannot be read: {error}") from None
    if pos != end:
        raise InvalidRecord(f"{end - pos} bytes follow the last of {count} records")
    return total, found


def latest_time(
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_timestamp: int,
    first_delta: int,
    stop_delta: int,
) -> int:
    """The largest timestamp of the records with an offset delta from `first_delta` to before `stop_delta`; -1 for none."""
    view = primitives.view(buf)
    if pos < 0 or pos > end or end > primitives.length(view):
        raise InvalidRecord(f"{pos} to {end} lies outside of the buffer")
    if base_timestamp >= _FAR or base_timestamp < -_FAR:
        raise InvalidRecord(f"base timestamp {base_timestamp} is out of range")
    data = primitives.start(view)
    latest = -1
    try:
        for _ in range(count):
            length, pos = varints.varint(data, pos, end)
            if length < 6 or length > end - pos:
                raise InvalidRecord(f"a record claims {length} bytes where {end - pos} are left")
            stop = pos + length
            delta, pos = varints.varint(data, pos + 1, stop)
            if delta >= _FAR or delta < -_FAR:
                raise InvalidRecord(f"a record's timestamp delta is {delta}")
            offset_delta, pos = varints.varint(data, pos, stop)
            if first_delta <= offset_delta < stop_delta and base_timestamp + delta > latest:
                latest = base_timestamp + delta
            pos = stop
    except ProtocolError as error:
        raise InvalidRecord(f"a record cannot be read: {error}") from None
    return latest


def encode_records(
    records: Iterable[NewRecord], base_timestamp: int, offset_deltas: Sequence[int] | None = None
) -> bytearray:
    """The bytes of all records; offsets count up from 0 unless their deltas are given."""
    rows = list(records)
    capacity = 0
    for _, key, value, _ in rows:
        capacity += _AROUND_BYTES
        if key is not None:
            capacity += len(key)
        if value is not None:
            capacity += len(value)
    out = bytearray(capacity)
    target = primitives.writable(out)
    pos = 0
    for index, (timestamp, key, value, headers) in enumerate(rows):
        stamp = varints.zigzag(timestamp - base_timestamp)
        place = varints.zigzag(index if offset_deltas is None else offset_deltas[index])
        key_bytes = None if key is None else (key if type(key) is bytes else bytes(key))
        value_bytes = None if value is None else (value if type(value) is bytes else bytes(value))
        tail = encode_headers(headers) if headers else b"\0"
        key_size = 0 if key_bytes is None else len(key_bytes)
        value_size = 0 if value_bytes is None else len(value_bytes)
        key_raw = 1 if key_bytes is None else key_size << 1
        value_raw = 1 if value_bytes is None else value_size << 1
        length = (
            1
            + varints.size_of(stamp)
            + varints.size_of(place)
            + varints.size_of(key_raw)
            + key_size
        )
        length += varints.size_of(value_raw) + value_size + len(tail)
        if length > 0x7FFFFFFF:
            raise InvalidRecord(f"a record of {length} bytes is larger than any batch")
        if pos + length + 10 > capacity:
            capacity = 2 * (pos + length + 10)
            out.extend(bytes(capacity - len(out)))  # headers, or keys that are not made of bytes
            target = primitives.writable(out)
        pos = varints.put(target, pos, length << 1)
        target[pos] = 0
        pos = varints.put(target, pos + 1, stamp)
        pos = varints.put(target, pos, place)
        pos = varints.put(target, pos, key_raw)
        if key_bytes is not None:
            pos = primitives.put_bytes(target, pos, key_bytes)
        pos = varints.put(target, pos, value_raw)
        if value_bytes is not None:
            pos = primitives.put_bytes(target, pos, value_bytes)
        pos = primitives.put_bytes(target, pos, tail)
    del out[pos:]
    return out


def _headers(data: primitives.Data, pos: int, stop: int, count: int) -> tuple[Headers, int]:
    # A header takes two bytes at least, so a forged count is seen before anything is made for it.
    if count < 0 or count > (stop - pos) >> 1:
        raise InvalidRecord(f"a record claims {count} headers in {stop - pos} bytes")
    found = []
    for _ in range(count):
        size, pos = varints.varint(data, pos, stop)
        if size < 0 or size > stop - pos:
            raise InvalidRecord(f"a header's name claims {size} bytes where {stop - pos} are left")
        try:
            name = primitives.text(data, pos, pos + size)
        except UnicodeDecodeError:
            raise InvalidRecord("a header's name is not UTF-8") from None
        pos += size
        size, pos = varints.varint(data, pos, stop)
        if size < -1 or size > stop - pos:
            raise InvalidRecord(f"a header's value claims {size} bytes where {stop - pos} are left")
        value = None
        if size >= 0:
            value = primitives.copy(data, pos, pos + size)
            pos += size
        found.append((name, value))
    return tuple(found), pos


def _skip_headers(data: primitives.Data, pos: int, stop: int, count: int) -> int:
    """The position after the headers, which are checked as `_headers` does, and not made."""
    if count < 0 or count > (stop - pos) >> 1:
        raise InvalidRecord(f"a record claims {count} headers in {stop - pos} bytes")
    for _ in range(count):
        size, pos = varints.varint(data, pos, stop)
        if size < 0 or size > stop - pos:
            raise InvalidRecord(f"a header's name claims {size} bytes where {stop - pos} are left")
        if size > 0:
            try:
                primitives.text(data, pos, pos + size)
            except UnicodeDecodeError:
                raise InvalidRecord("a header's name is not UTF-8") from None
        pos += size
        size, pos = varints.varint(data, pos, stop)
        if size < -1 or size > stop - pos:
            raise InvalidRecord(f"a header's value claims {size} bytes where {stop - pos} are left")
        if size > 0:
            pos += size
    return pos


def encode_headers(headers: Iterable[tuple[str, Any]]) -> bytes:
    """The last field of a record: how many headers, and each name and value."""
    found = tuple(headers)
    out = bytearray()
    varints.write_varint(out, len(found))
    for name, value in found:
        name_bytes = name.encode()
        varints.write_varint(out, len(name_bytes))
        out += name_bytes
        if value is None:
            varints.write_varint(out, -1)
        else:
            varints.write_varint(out, len(value))
            out += value
    return bytes(out)
