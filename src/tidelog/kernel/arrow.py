"""Records of whole batches straight into Arrow's buffers: one pass, no object a record.

`batch_places` walks what a fetch brought; the caller drops the batches that nobody should see, unfolds the compressed
ones, and gives the rest to `decode_columns` as segments.  The buffers are as Arrow wants them (numbers of this machine's
byte order, offsets of 32 bits, validity a bit a row) and may be handed to it as they are:

    rows            how many
    offset          int64 a row
    timestamp       int64 a row, in ms times `scale`
    timestamp type  int32 a row: 0 when created, 1 when appended
    key, value      (nulls, validity, offsets, bytes), validity None where nothing is null
    headers         (list offsets, count, name offsets, names, nulls, validity, value offsets, values)

A column that is not wanted is None, and the bytes that only it needs are stepped over without a look.  A record takes
more bytes than its parts, so a buffer as large as the segments is always enough.  That is what values get; keys and headers,
which are small as a rule, start with a share of it and grow, because memory that is taken and given back untouched is
not free: an allocator returns it to the system, and every page of it must be made anew for the next call.
"""

import tidelog.kernel.primitives as primitives
from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.kernel.primitives import Buffer

Place = tuple[int, int, int, int, int, int, int, int, int]
"""Of one batch: where its records start and end; their count; base and last offset; base and max timestamp;
attributes; producer id."""

Segment = tuple[Buffer, int, int, int, int, int, int]
"""Uncompressed records of one batch: the bytes, where they start and end in them, their count, the base offset, the
base timestamp, and the time of all of them, or -1 if each has its own."""

Binary = tuple[int, bytearray | None, bytearray, bytearray]
HeaderColumn = tuple[
    bytearray, int, bytearray, bytearray, int, bytearray | None, bytearray, bytearray
]
Columns = tuple[
    int,
    bytearray | None,
    bytearray | None,
    bytearray | None,
    Binary | None,
    Binary | None,
    HeaderColumn | None,
]

_OFFSET = 1
_TIMESTAMP = 2
_TIMESTAMP_TYPE = 4
_KEY = 8
_VALUE = 16
_HEADERS = 32

BITS = {
    "offset": _OFFSET,
    "timestamp": _TIMESTAMP,
    "timestamp_type": _TIMESTAMP_TYPE,
    "key": _KEY,
    "value": _VALUE,
    "headers": _HEADERS,
}
"""The columns that can be wanted, to be added up."""

_FAR = 1 << 62
"""Offsets and timestamps stay below this, so that their sums with deltas never leave 64 bits."""

_MOST = 0x7FFFFFFF
"""What an offset of 32 bits can point to."""

_LAST_TIME = 0x7FFFFFFFFFFFFFFF
_FIRST_HEADERS = 1024
_FIRST_SHARE = 16


def batch_places(buf: Buffer, pos: int, end: int, check: bool) -> list[Place]:
    """Every whole batch from `pos` to `end`; one that is cut off, as a fetch may leave it, ends the list.

    CorruptMessage for a header that cannot be, and with `check` for a wrong CRC; it names the offset.
    """
    view = primitives.view(buf)
    if pos < 0 or pos > end or end > primitives.length(view):
        raise CorruptMessage(f"{pos} to {end} lies outside of the buffer")
    data = primitives.start(view)
    places: list[Place] = []
    while end - pos >= 61:
        base_offset = primitives.i64(data, pos)
        length = primitives.i32(data, pos + 8)
        magic = primitives.i8(data, pos + 16)
        last_delta = primitives.i32(data, pos + 23)
        count = primitives.i32(data, pos + 57)
        if magic != 2 or length < 49 or last_delta < 0 or count < 0:
            raise CorruptMessage(
                f"the batch at offset {base_offset} claims magic {magic}, a length of {length}, {count} records "
                f"and a last offset delta of {last_delta}"
            )
        if base_offset < 0 or base_offset >= _FAR:
            raise CorruptMessage(f"a batch claims the offset {base_offset}")
        stop = pos + 12 + length
        if stop > end:
            break
        if check:
            crc = primitives.u32(data, pos + 17)
            found = primitives.checksum(data, pos + 21, stop, 0)
            if found != crc:
                raise CorruptMessage(
                    f"the batch at offset {base_offset} is damaged: its CRC is {crc:#010x}, its bytes give {found:#010x}"
                )
        places.append(
            (
                pos + 61,
                stop,
                count,
                base_offset,
                base_offset + last_delta,
                primitives.i64(data, pos + 27),
                primitives.i64(data, pos + 35),
                primitives.i16(data, pos + 21),
                primitives.i64(data, pos + 43),
            )
        )
        pos = stop
    return places


def decode_columns(
    segments: list[Segment],
    wanted: int,
    first: int,
    stop: int,
    oldest: int,
    newest: int,
    scale: int,
) -> Columns:
    """The wanted columns of all records with `first <= offset < stop` and `oldest <= timestamp <= newest`.

    Times that `scale` would push out of 64 bits are put at the end of what they can be.
    """
    rows = 0
    total = 0
    for buf, pos, end, count, base_offset, base_timestamp, _ in segments:
        if pos < 0 or pos > end or end > primitives.length(primitives.view(buf)):
            raise InvalidRecord(f"{pos} to {end} lies outside of the buffer")
        # The smallest record takes 7 bytes, so a forged count is seen before anything is made for it.
        if count < 0 or count > (end - pos) // 7:
            raise InvalidRecord(f"{count} records cannot fit into {end - pos} bytes")
        if not (-_FAR <= base_timestamp < _FAR and -_FAR <= base_offset < _FAR):
            raise InvalidRecord(
                f"base offset {base_offset} or timestamp {base_timestamp} is out of range"
            )
        rows += count
        total += end - pos
    if total > _MOST:
        raise InvalidRecord(f"{total} bytes of records are too much to decode at once")
    sink = _Sink(wanted, rows, total)
    for buf, pos, end, count, base_offset, base_timestamp, append_time in segments:
        _fill(
            sink,
            buf,
            pos,
            end,
            count,
            base_offset,
            base_timestamp,
            append_time,
            first,
            stop,
            oldest,
            newest,
            scale,
        )
    return sink.columns()


class _Sink:
    """Where the columns are written, and how far each is filled."""

    def __init__(self, wanted: int, rows: int, total: int) -> None:
        self.wanted = wanted
        self.rows = 0
        self.offsets = primitives.fresh(8 * rows if wanted & _OFFSET else 0)
        self.timestamps = primitives.fresh(8 * rows if wanted & _TIMESTAMP else 0)
        self.types = primitives.fresh(4 * rows if wanted & _TIMESTAMP_TYPE else 0)
        has = wanted & _KEY
        self.key_nulls = 0
        self.key_bytes = 0
        self.key_validity = bytearray((rows + 7) // 8 if has else 0)
        self.key_offsets = primitives.fresh(4 * (rows + 1) if has else 0)
        self.key_data = primitives.fresh(total // _FIRST_SHARE if has else 0)
        has = wanted & _VALUE
        self.value_nulls = 0
        self.value_bytes = 0
        self.value_validity = bytearray((rows + 7) // 8 if has else 0)
        self.value_offsets = primitives.fresh(4 * (rows + 1) if has else 0)
        self.value_data = primitives.fresh(total if has else 0)
        has = wanted & _HEADERS
        self.headers = 0
        self.header_nulls = 0
        self.header_room = _FIRST_HEADERS if has else 0
        self.name_bytes = 0
        self.header_bytes = 0
        self.list_offsets = primitives.fresh(4 * (rows + 1) if has else 0)
        self.name_offsets = bytearray(4 * (self.header_room + 1) if has else 0)
        self.names = primitives.fresh(total // _FIRST_SHARE if has else 0)
        self.header_validity = bytearray(self.header_room // 8)
        self.header_offsets = bytearray(4 * (self.header_room + 1) if has else 0)
        self.header_data = primitives.fresh(total // _FIRST_SHARE if has else 0)

    def columns(self) -> Columns:
        """What was filled, with the ends of all offsets written and nothing behind them."""
        rows, wanted = self.rows, self.wanted
        key = value = headers = None
        if wanted & _KEY:
            key = _binary(
                rows,
                self.key_nulls,
                self.key_validity,
                self.key_offsets,
                self.key_data,
                self.key_bytes,
            )
        if wanted & _VALUE:
            value = _binary(
                rows,
                self.value_nulls,
                self.value_validity,
                self.value_offsets,
                self.value_data,
                self.value_bytes,
            )
        if wanted & _HEADERS:
            count = self.headers
            _, _, name_offsets, names = _binary(
                count, 0, bytearray(), self.name_offsets, self.names, self.name_bytes
            )
            nulls, validity, offsets, data = _binary(
                count,
                self.header_nulls,
                self.header_validity,
                self.header_offsets,
                self.header_data,
                self.header_bytes,
            )
            places = _ended(self.list_offsets, rows, count)
            headers = (places, count, name_offsets, names, nulls, validity, offsets, data)
        return (
            rows,
            _cut(self.offsets, 8 * rows) if wanted & _OFFSET else None,
            _cut(self.timestamps, 8 * rows) if wanted & _TIMESTAMP else None,
            _cut(self.types, 4 * rows) if wanted & _TIMESTAMP_TYPE else None,
            key,
            value,
            headers,
        )

    def more_headers(self) -> None:
        """Make room for twice as many headers."""
        self.name_offsets.extend(bytes(4 * self.header_room))
        self.header_offsets.extend(bytes(4 * self.header_room))
        self.header_validity.extend(bytes(self.header_room // 8))
        self.header_room *= 2


def _fill(
    sink: _Sink,
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int,
    first: int,
    stop: int,
    oldest: int,
    newest: int,
    scale: int,
) -> None:
    """Write the records of one segment to the sink's columns."""
    view = primitives.view(buf)
    data = primitives.start(view)
    wanted, rows = sink.wanted, sink.rows
    latest = _LAST_TIME // scale
    offsets = primitives.writable(sink.offsets)
    timestamps = primitives.writable(sink.timestamps)
    types = primitives.writable(sink.types)
    list_offsets = primitives.writable(sink.list_offsets)
    key_validity = primitives.writable(sink.key_validity)
    key_offsets = primitives.writable(sink.key_offsets)
    key_data = primitives.writable(sink.key_data)
    key_bytes, key_nulls = sink.key_bytes, sink.key_nulls
    key_room = len(sink.key_data)
    value_validity = primitives.writable(sink.value_validity)
    value_offsets = primitives.writable(sink.value_offsets)
    value_data = primitives.writable(sink.value_data)
    value_bytes, value_nulls = sink.value_bytes, sink.value_nulls
    for _ in range(count):
        length, pos = _number(data, pos, end)
        if pos < 0 or length < 6 or length > end - pos:
            raise InvalidRecord(f"a record claims {length} bytes where {end - pos} are left")
        at = pos + 1
        pos += length
        delta, at = _number(data, at, pos)
        offset_delta, at = _number(data, at, pos)
        if at < 0 or delta >= _FAR or delta < -_FAR:
            raise InvalidRecord(f"a record's timestamp delta is {delta}, or its offset is cut off")
        if offset_delta > 0x7FFFFFFF or offset_delta < -0x80000000:
            raise InvalidRecord(f"a record's offset delta is {offset_delta}")
        offset = base_offset + offset_delta
        timestamp = base_timestamp + delta if append_time < 0 else append_time
        if offset < first or offset >= stop or timestamp < oldest or timestamp > newest:
            continue
        if wanted & _OFFSET:
            primitives.put_native_i64(offsets, 8 * rows, offset)
        if wanted & _TIMESTAMP:
            if timestamp > latest:
                timestamp = latest
            if timestamp < -latest:
                timestamp = -latest
            primitives.put_native_i64(timestamps, 8 * rows, timestamp * scale)
        if wanted & _TIMESTAMP_TYPE:
            primitives.put_native_i32(types, 4 * rows, 0 if append_time < 0 else 1)
        if wanted >= _KEY:
            size, at = _number(data, at, pos)
            if at < 0 or size > pos - at or size < -1:
                raise InvalidRecord(f"a key claims {size} bytes where {pos - at} are left")
            if wanted & _KEY:
                primitives.put_native_i32(key_offsets, 4 * rows, key_bytes)
                if size < 0:
                    key_nulls += 1
                else:
                    key_validity[rows >> 3] |= 1 << (rows & 7)
                    if size > key_room - key_bytes:
                        key_room = _grow(sink.key_data, key_bytes + size)
                        key_data = primitives.writable(sink.key_data)
                    key_bytes = primitives.move(key_data, key_bytes, data, at, at + size)
            if size > 0:
                at += size
        if wanted >= _VALUE:
            size, at = _number(data, at, pos)
            if at < 0 or size > pos - at or size < -1:
                raise InvalidRecord(f"a value claims {size} bytes where {pos - at} are left")
            if wanted & _VALUE:
                primitives.put_native_i32(value_offsets, 4 * rows, value_bytes)
                if size < 0:
                    value_nulls += 1
                else:
                    value_validity[rows >> 3] |= 1 << (rows & 7)
                    value_bytes = primitives.move(value_data, value_bytes, data, at, at + size)
            if size > 0:
                at += size
        if wanted >= _HEADERS:
            primitives.put_native_i32(list_offsets, 4 * rows, sink.headers)
            size, at = _number(data, at, pos)
            if at < 0 or size < 0 or size > (pos - at) >> 1:
                raise InvalidRecord(f"a record claims {size} headers in {pos - at} bytes")
            if size:
                at = _fill_headers(sink, data, at, pos, size)
            if at != pos:
                raise InvalidRecord(f"a record is {pos - at} bytes longer than its fields")
        rows += 1
    if pos != end:
        raise InvalidRecord(f"{end - pos} bytes follow the last of {count} records")
    sink.rows = rows
    sink.key_bytes, sink.key_nulls = key_bytes, key_nulls
    sink.value_bytes, sink.value_nulls = value_bytes, value_nulls


def _fill_headers(sink: _Sink, data: primitives.Data, pos: int, stop: int, count: int) -> int:
    """Write one record's headers; the position after them."""
    while sink.headers + count > sink.header_room:
        sink.more_headers()
    # All names and values of the record are less than its bytes.
    if len(sink.names) < sink.name_bytes + stop - pos:
        _grow(sink.names, sink.name_bytes + stop - pos)
    if len(sink.header_data) < sink.header_bytes + stop - pos:
        _grow(sink.header_data, sink.header_bytes + stop - pos)
    name_offsets = primitives.writable(sink.name_offsets)
    names = primitives.writable(sink.names)
    validity = primitives.writable(sink.header_validity)
    offsets = primitives.writable(sink.header_offsets)
    values = primitives.writable(sink.header_data)
    place = sink.headers
    for _ in range(count):
        size, pos = _number(data, pos, stop)
        if pos < 0 or size < 0 or size > stop - pos:
            raise InvalidRecord(f"a header's name claims {size} bytes where {stop - pos} are left")
        if not _is_ascii(data, pos, pos + size):
            try:
                primitives.text(data, pos, pos + size)
            except UnicodeDecodeError:
                raise InvalidRecord("a header's name is not UTF-8") from None
        primitives.put_native_i32(name_offsets, 4 * place, sink.name_bytes)
        sink.name_bytes = primitives.move(names, sink.name_bytes, data, pos, pos + size)
        pos += size
        size, pos = _number(data, pos, stop)
        if pos < 0 or size < -1 or size > stop - pos:
            raise InvalidRecord(f"a header's value claims {size} bytes where {stop - pos} are left")
        primitives.put_native_i32(offsets, 4 * place, sink.header_bytes)
        if size < 0:
            sink.header_nulls += 1
        else:
            validity[place >> 3] |= 1 << (place & 7)
            sink.header_bytes = primitives.move(values, sink.header_bytes, data, pos, pos + size)
            pos += size
        place += 1
    sink.headers = place
    return pos


def _number(data: primitives.Data, pos: int, end: int) -> tuple[int, int]:
    """The zig-zag number at `pos` and the position after it; -1 for one that is cut off or has more than 64 bits.

    As `varints.varint`, but here, where the compiler can put it into the loops, and without exceptions: a position
    of -1 may be passed on to the next call, so that several are checked at once.
    """
    if pos < 0 or pos >= end:
        return 0, -1
    raw = data[pos]
    pos += 1
    if raw > 127:
        raw &= 127
        shift = 7
        byte = 128
        while byte > 127:
            if pos >= end:
                return 0, -1
            byte = data[pos]
            pos += 1
            if shift == 63 and byte > 1:
                return 0, -1
            raw |= (byte & 127) << shift
            shift += 7
    return (raw >> 1) ^ -(raw & 1), pos


def _is_ascii(data: primitives.Data, pos: int, end: int) -> bool:
    for place in range(pos, end):  # noqa: SIM110 - a loop of C
        if data[place] > 127:
            return False
    return True


def _binary(
    rows: int, nulls: int, validity: bytearray, offsets: bytearray, data: bytearray, size: int
) -> Binary:
    return nulls, validity if nulls else None, _ended(offsets, rows, size), _cut(data, size)


def _ended(offsets: bytearray, rows: int, end: int) -> bytearray:
    primitives.put_native_i32(primitives.writable(offsets), 4 * rows, end)
    return _cut(offsets, 4 * (rows + 1))


def _grow(buffer: bytearray, at_least: int) -> int:
    """Make the buffer larger, to twice of what is needed; its new size."""
    buffer.extend(bytes(2 * at_least - len(buffer)))
    return len(buffer)


def _cut(buffer: bytearray, size: int) -> bytearray:
    del buffer[size:]
    return buffer
