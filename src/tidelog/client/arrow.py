"""From the bytes of a fetch to `pyarrow.RecordBatch`es; needs `pip install 'tidelog[arrow]'`.

What a fetch brought for one partition is a `Chunk`: the partition, the offset that was asked for, the blob of batches, and
the aborted transactions (None for those who read everything):

    chunk = Chunk(TopicPartition("orders", 0), 42, memoryview(records), None, -1)
    layout = Layout(("offset", "timestamp", "value"), unit="us")
    for batch in record_batches(chunk, layout, Bounds(first=42, stop=1_000)):
        ...

Only the columns of the layout are decoded.  Batches outside of the bounds are not even unfolded; within a batch the bounds
hold row by row.  Control records and aborted transactions never show.  The kernel writes Arrow's buffers, which are wrapped
here and not copied.  What is in memory at a time is one chunk and about `max_bytes` of rows, or one batch of the log
where that is larger.  To read from a broker rather than from bytes, see `tidelog.client.reading`.

The columns, in Arrow's types; all can be null as far as the schema says, but only key, value and a header's value ever are:

    topic           string
    partition       int32
    offset          int64
    timestamp       timestamp[unit, tz=UTC], of the record or of its appending
    timestamp_type  int32: 0 is when it was created, 1 when it was appended
    key, value      binary
    headers         list<element: struct<key: string, value: binary>>, empty where there are none
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from tidelog.dataclass import dataclass

try:
    import pyarrow as pa
except ImportError:
    raise ImportError(
        "reading into Arrow needs pyarrow, which is not installed: pip install 'tidelog[arrow]'"
    ) from None

from tidelog.client.decoding import Aborted, Chunk, Unfolding
from tidelog.errors import CorruptMessage, InvalidRecord, SettingsError
from tidelog.kernel.arrow import BITS, Columns, Segment, batch_places, decode_columns
from tidelog.names import TopicPartition
from tidelog.records.batch import CODEC_MASK, CONTROL, HEADER_BYTES, LOG_APPEND_TIME, parse_header
from tidelog.records.compression import codec_of

__all__ = [
    "COLUMNS",
    "EVERYTHING",
    "USUAL",
    "Bounds",
    "Chunk",
    "Layout",
    "Unfolding",
    "layout_of",
    "pa",
    "record_batches",
    "to_table",
]

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
"""All columns that there are."""

USUAL = tuple(name for name in COLUMNS if name != "timestamp_type")
"""What is read unless something else is asked for."""

MAX_BYTES = 4 * 1024 * 1024
MAX_ROWS = 65_536
"""How much goes into one RecordBatch, about: enough to make its cost a row small, little enough to pass through a cache."""

_FAR = 1 << 62
_SCALES = {"ms": 1, "us": 1000}
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp_type": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(pa.field("element", _HEADER)),  # the name that Spark wants
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which records: `first <= offset < stop` and `oldest_ms <= timestamp < until_ms`."""

    first: int = 0
    stop: int = _FAR
    oldest_ms: int = -_FAR
    until_ms: int = _FAR


EVERYTHING = Bounds()


@dataclass(frozen=True)
class Layout:
    """Which columns, in which order, and the unit of time: "ms" as Kafka has it, or "us"."""

    columns: tuple[str, ...] = USUAL
    unit: str = "ms"

    def __post_init__(self) -> None:
        for name in self.columns:
            if name not in COLUMNS:
                known = ", ".join(COLUMNS)
                raise SettingsError(f"there is no column {name!r}; there are {known}")
        if len(set(self.columns)) < len(self.columns):
            raise SettingsError(f"a column is named twice: {', '.join(self.columns)}")
        if self.unit not in _SCALES:
            raise SettingsError(f"unit={self.unit!r} must be 'ms' or 'us'")

    @cached_property
    def schema(self) -> pa.Schema:
        types = {**_TYPES, "timestamp": pa.timestamp(self.unit, "UTC")}
        return pa.schema([(name, types[name]) for name in self.columns])

    @cached_property
    def wanted(self) -> int:
        """What the kernel is to decode."""
        return sum(BITS.get(name, 0) for name in self.columns)

    @property
    def scale(self) -> int:
        return _SCALES[self.unit]


def layout_of(columns: Sequence[str] | None, usual: Sequence[str]) -> Layout:
    """The layout of the columns that were asked for, in ms."""
    if isinstance(columns, str):
        raise SettingsError(f"columns={columns!r} must be a list, as in columns=[{columns!r}]")
    return Layout(tuple(usual if columns is None else columns))


def record_batches(
    chunk: Chunk,
    layout: Layout,
    bounds: Bounds = EVERYTHING,
    *,
    check_crcs: bool = True,
    max_bytes: int = MAX_BYTES,
    max_rows: int = MAX_ROWS,
    unfolding: Unfolding | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of a chunk from its fetch offset on and within the bounds; none is empty.

    Whoever decodes chunk after chunk may give an `Unfolding`, whose memory is then used again.
    """
    unfolding = unfolding or Unfolding()
    unfolding.clear()  # if the one before did not come to its end
    first = max(bounds.first, chunk.fetch_offset)
    segments: list[Segment] = []
    size = rows = 0
    try:
        for segment in _segments(chunk, first, bounds, check_crcs, unfolding):
            segments.append(segment)
            size += segment[2] - segment[1]
            rows += segment[3]
            if size >= max_bytes or rows >= max_rows:
                made = _decoded(chunk.partition, segments, layout, first, bounds)
                segments, size, rows = [], 0, 0
                unfolding.clear()
                yield from _slices(made, max_rows)
        if segments:
            made = _decoded(chunk.partition, segments, layout, first, bounds)
            unfolding.clear()
            yield from _slices(made, max_rows)
    except (CorruptMessage, InvalidRecord) as error:
        raise type(error)(f"{chunk.partition}: {error}") from None


def to_table(batches: Sequence[pa.RecordBatch], layout: Layout) -> pa.Table:
    """The batches as one table, which has the schema even if there are none."""
    return pa.Table.from_batches(batches, layout.schema)


def _segments(
    chunk: Chunk, first: int, bounds: Bounds, check_crcs: bool, unfolding: Unfolding
) -> Iterator[Segment]:
    """What is to be decoded: batches within the bounds, not hidden, unfolded."""
    records = chunk.records
    aborted = Aborted(chunk.aborted) if chunk.aborted else None
    for place in batch_places(records, 0, len(records), check_crcs):
        start, end, count, base, last, base_time, max_time, attributes, _ = place
        if aborted is not None:
            header = parse_header(records, start - HEADER_BYTES)
            if aborted.hides(records, start - HEADER_BYTES, header):
                continue
        if attributes & CONTROL or not count or last < first or base >= bounds.stop:
            continue
        if max_time < bounds.oldest_ms:
            continue
        append_time = max_time if attributes & LOG_APPEND_TIME else -1
        if attributes & CODEC_MASK:
            where = unfolding.unfold(codec_of(attributes & CODEC_MASK), records[start:end])
            yield *where, count, base, base_time, append_time
        else:
            yield records, start, end, count, base, base_time, append_time


def _decoded(
    tp: TopicPartition, segments: list[Segment], layout: Layout, first: int, bounds: Bounds
) -> pa.RecordBatch:
    columns = decode_columns(
        segments,
        layout.wanted,
        first,
        bounds.stop,
        bounds.oldest_ms,
        bounds.until_ms - 1,
        layout.scale,
    )
    arrays = [_MAKERS[name](tp, columns, layout) for name in layout.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=layout.schema)


def _slices(batch: pa.RecordBatch, max_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, max_rows):
        yield batch.slice(start, max_rows)


# One maker a column.


def _topic(tp: TopicPartition, columns: Columns, layout: Layout) -> pa.Array:
    return pa.repeat(pa.scalar(tp.topic, pa.string()), columns[0])


def _partition(tp: TopicPartition, columns: Columns, layout: Layout) -> pa.Array:
    return pa.repeat(pa.scalar(tp.partition, pa.int32()), columns[0])


def _offset(tp: TopicPartition, columns: Columns, layout: Layout) -> pa.Array:
    return _fixed(pa.int64(), columns[0], columns[1])


def _timestamp(tp: TopicPartition, columns: Columns, layout: Layout) -> pa.Array:
    return _fixed(pa.timestamp(layout.unit, "UTC"), columns[0], columns[2])


def _timestamp_type(tp: TopicPartition, columns: Columns, layout: Layout) -> pa.Array:
    return _fixed(pa.int32(), columns[0], columns[3])


def _key(tp: TopicPartition, columns: Columns, layout: Layout) -> pa.Array:
    return _binary(pa.binary(), columns[0], columns[4])


def _value(tp: TopicPartition, columns: Columns, layout: Layout) -> pa.Array:
    return _binary(pa.binary(), columns[0], columns[5])


def _headers(tp: TopicPartition, columns: Columns, layout: Layout) -> pa.Array:
    assert columns[6] is not None
    places, count, name_offsets, names, *values = columns[6]
    children = [
        _binary(pa.string(), count, (0, None, name_offsets, names)),
        _binary(pa.binary(), count, values),
    ]
    pairs = pa.StructArray.from_arrays(children, fields=list(_HEADER))
    return pa.ListArray.from_buffers(
        _TYPES["headers"], columns[0], [None, pa.py_buffer(places)], 0, children=[pairs]
    )


def _fixed(kind: Any, rows: int, data: bytearray | None) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)], 0)


def _binary(kind: Any, rows: int, column: Any) -> pa.Array:
    nulls, validity, offsets, data = column
    bits = None if validity is None else pa.py_buffer(validity)
    return pa.Array.from_buffers(
        kind, rows, [bits, pa.py_buffer(offsets), pa.py_buffer(data)], nulls
    )


_MAKERS: dict[str, Callable[[TopicPartition, Columns, Layout], pa.Array]] = {
    "topic": _topic,
    "partition": _partition,
    "offset": _offset,
    "timestamp": _timestamp,
    "timestamp_type": _timestamp_type,
    "key": _key,
    "value": _value,
    "headers": _headers,
}
