"""From what a fetch brought to batches that a producer can send; pure.

A batch goes on as it is, its records never looked at, if nothing in it must change.  It is built anew

- if it has gaps, as compaction leaves them: a broker refuses those from a producer;
- if its first records lie before the offset that was asked for;
- if the source's broker has set its times, or it carries a delete horizon: no producer may send these marks;
- if every record is to be told its source offset;
- if it is small and has small neighbours: one request carries one batch of a partition, so many small ones are slow.

Markers of transactions, and what was aborted, stay behind.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.client.decoding import Aborted, Chunk
from tidelog.kernel import decode_records
from tidelog.records.batch import BatchHeader, iterate_batches, records_of
from tidelog.records.builder import NewRecord, build_batch

SMALL_BYTES = 16 * 1024
_BUILT_BYTES = 256 * 1024
"""Small batches are put together up to this size, about."""


class Passed(NamedTuple):
    """A batch for the target, and what of the source is in it."""

    data: bytearray
    count: int  # type: ignore[assignment]  # the tuple's own method is not missed
    first: int
    """Source offset of its first record."""
    end: int
    """The source offset after its last record."""
    max_timestamp: int
    rebuilt: bool = False


class _Found(NamedTuple):
    pos: int
    header: BatchHeader
    changes: bool


def pass_on(chunk: Chunk, offset_header: str | None = None) -> list[Passed]:
    """The batches to send for a chunk, in order."""
    out: list[Passed] = []
    run: list[_Found] = []
    for found in _wanted(chunk, offset_header is not None):
        if found.changes or found.header.size < SMALL_BYTES:
            run.append(found)
            continue
        out += _settle(chunk, run, offset_header)
        run.clear()
        out.append(_as_it_is(chunk, found))
    out += _settle(chunk, run, offset_header)
    return out


def _wanted(chunk: Chunk, change_all: bool) -> Iterator[_Found]:
    aborted = Aborted(chunk.aborted) if chunk.aborted else None
    for pos, header in iterate_batches(chunk.records):
        if aborted is not None and aborted.hides(chunk.records, pos, header):
            continue
        if header.is_control or header.last_offset < chunk.fetch_offset or not header.count:
            continue
        changes = (
            change_all
            or header.count != header.last_offset_delta + 1
            or header.base_offset < chunk.fetch_offset
            or header.is_log_append_time
            or header.has_delete_horizon
        )
        yield _Found(pos, header, changes)


def _as_it_is(chunk: Chunk, found: _Found) -> Passed:
    pos, header, _ = found
    return Passed(
        bytearray(chunk.records[pos : pos + header.size]),
        header.count,
        header.base_offset,
        header.last_offset + 1,
        header.max_timestamp,
    )


def _settle(chunk: Chunk, run: list[_Found], offset_header: str | None) -> Iterator[Passed]:
    """Batches that were small, or must change, put together where they may be."""
    part: list[_Found] = []
    size = 0
    for found in run:
        codec_changes = bool(part) and found.header.codec is not part[0].header.codec
        if part and (codec_changes or size + found.header.size > _BUILT_BYTES):
            yield from _build(chunk, part, offset_header)
            part, size = [], 0
        part.append(found)
        size += found.header.size
    if part:
        yield from _build(chunk, part, offset_header)


def _build(chunk: Chunk, part: list[_Found], offset_header: str | None) -> Iterator[Passed]:
    if len(part) == 1 and not part[0].changes:
        yield _as_it_is(chunk, part[0])
        return
    rows: list[NewRecord] = []
    first = -1
    for pos, header, _ in part:
        for offset, timestamp, key, value, headers in decode_records(
            *records_of(chunk.records, pos, header)
        ):
            if offset < chunk.fetch_offset:
                continue
            if header.is_log_append_time:
                timestamp = header.max_timestamp
            if offset_header is not None:
                kept = tuple(each for each in headers if each[0] != offset_header)
                headers = (*kept, (offset_header, str(offset).encode()))
            if first < 0:
                first = offset
            rows.append((timestamp, key, value, headers))
    if rows:
        data = build_batch(rows, codec=part[0].header.codec)
        newest = max(row[0] for row in rows)
        yield Passed(data, len(rows), first, part[-1].header.last_offset + 1, newest, True)
