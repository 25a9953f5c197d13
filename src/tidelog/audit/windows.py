"""In which windows of time the records of a batch lie; pure.

Counting is by batch: a batch whose records all lie in one window, as nearly every one does, costs the same whether it has
ten records or ten thousand, as far as Python goes.  The counts are exact all the same.
"""

import array
from collections import Counter
from collections.abc import Iterator

from tidelog.client.decoding import Aborted, Chunk
from tidelog.kernel import decode_records, times_outside
from tidelog.records.batch import BatchHeader, iterate_batches, records_of

WINDOW_MS = 600_000
"""Ten minutes, as in the paper."""


def window_of(timestamp_ms: int, window_ms: int) -> int:
    """Where the window begins that this time lies in."""
    return timestamp_ms - timestamp_ms % window_ms


def windows_of_stamps(stamps: bytes | bytearray, count: int, window_ms: int) -> dict[int, int]:
    """Records by window, of pairs (from which record on, which timestamp) as a producer's batch has them."""
    pairs = array.array("q", bytes(stamps))
    found: Counter[int] = Counter()
    ends = [*pairs[2::2], count]
    for begin, timestamp, end in zip(pairs[::2], pairs[1::2], ends, strict=True):
        found[window_of(timestamp, window_ms)] += end - begin
    return found


def windows_of_batch(
    records: memoryview | bytearray, pos: int, header: BatchHeader, first: int, window_ms: int
) -> dict[int, int]:
    """Records by window, of the batch at `pos`, from offset `first` on."""
    whole = first <= header.base_offset
    if header.is_log_append_time and whole:
        return {window_of(header.max_timestamp, window_ms): header.count}
    start = window_of(header.max_timestamp, window_ms)
    place = records_of(records, pos, header)
    if whole and not times_outside(
        *place[:4], header.base_timestamp, start, start + window_ms - 1, 0, 1, False
    ):
        return {start: header.count}
    stamp = header.max_timestamp if header.is_log_append_time else None
    return Counter(
        window_of(row[1] if stamp is None else stamp, window_ms)
        for row in decode_records(*place)
        if row[0] >= first
    )


def windows_of_chunk(chunk: Chunk, window_ms: int) -> dict[int, int]:
    """Records by window of what a fetch brought; markers and aborted records do not count."""
    found: Counter[int] = Counter()
    for pos, header in _visible(chunk):
        found.update(windows_of_batch(chunk.records, pos, header, chunk.fetch_offset, window_ms))
    return found


def _visible(chunk: Chunk) -> Iterator[tuple[int, BatchHeader]]:
    aborted = Aborted(chunk.aborted) if chunk.aborted else None
    for pos, header in iterate_batches(chunk.records):
        if aborted is not None and aborted.hides(chunk.records, pos, header):
            continue
        if not header.is_control and header.last_offset >= chunk.fetch_offset and header.count:
            yield pos, header
