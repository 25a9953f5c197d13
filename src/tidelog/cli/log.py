"""`tidelog log dump`: what is in a segment, an index or a snapshot, whoever wrote it and whether or not a broker runs.

The lines are those of Kafka's DumpLogSegments.  An index is compared with the segment beside it.  The exit code is 1
when something does not fit.  Nothing is written, and read-only files will do.

Absent: decoding the records of the internal topics.
"""

import argparse
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidelog.cli._formats import json_field
from tidelog.cli._options import add_actions, add_json
from tidelog.cli._output import print_json_line
from tidelog.errors import KafkaError, SettingsError, TidelogError
from tidelog.kernel import check_batch
from tidelog.names import Offset
from tidelog.records.batch import BatchHeader, iterate_batches, read_records
from tidelog.records.control import read_marker

HELP = "look into the files of a log"
EXAMPLE = "example: tidelog log dump data/orders-0/*.log"

# storage/index.py and storage/txnindex.py draw them.
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_ENTRY = struct.Struct(">hqqqq")

Row = dict[str, Any]


class _DoesNotFit(TidelogError):
    """A file is damaged, or contradicts another."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    dump = add_actions(
        parser,
        [("dump", "print batches, records or entries", "tidelog log dump data/orders-0/*.log -d")],
    )["dump"]
    dump.add_argument("paths", metavar="FILE", nargs="*", type=Path, help="a file")
    dump.add_argument("--files", metavar="FILE,…", help=argparse.SUPPRESS)
    dump.add_argument(
        "-d", "--records", "--print-data-log", action="store_true", help="the records as well"
    )
    add_json(dump)


def run(arguments: argparse.Namespace) -> int:
    paths = [*arguments.paths, *map(Path, filter(None, (arguments.files or "").split(",")))]
    if not paths:
        raise SettingsError("FILE is missing; name .log, .index, .timeindex, .txnindex, .snapshot")
    failed = 0
    for path in paths:
        kind = _KINDS.get(path.suffix)
        if kind is None:
            raise SettingsError(f"{path}: cannot dump such a file; there are {' '.join(_KINDS)}")
        if not arguments.json:
            print(f"Dumping {path}")
        try:
            for row in kind(path, arguments.records):
                if arguments.json:
                    print_json_line({"file": str(path), **row})
                else:
                    print(_line(row))
        except (_DoesNotFit, KafkaError) as error:
            failed = 1
            if arguments.json:
                print_json_line({"file": str(path), "error": str(error)})
            else:
                print(f"{path}: {error}")
    return failed


def _line(row: Row) -> str:
    """Kafka's way: names and values with colons, records behind a bar."""
    row = dict(row)
    bar = "| " if "batch" in row and row.pop("batch") is not None else ""
    return bar + " ".join(f"{name}: {_text(value)}" for name, value in row.items())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    return str(value)


def _segment(path: Path, with_records: bool) -> Iterator[Row]:
    data = path.read_bytes()
    position = 0
    while position < len(data):
        try:
            header = BatchHeader._make(check_batch(data, position, len(data)))
        except TidelogError as error:
            raise _DoesNotFit(
                f"found {len(data) - position} invalid bytes at position {position}: {error}"
            ) from None
        yield _batch_row(header, position)
        if with_records:
            yield from _record_rows(data, position, header)
        position += header.size


def _batch_row(header: BatchHeader, position: int) -> Row:
    kind = "LogAppendTime" if header.is_log_append_time else "CreateTime"
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "position": position,
        kind: header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": header.codec.name.lower(),
        "crc": header.crc,
        "isvalid": True,
    }


def _record_rows(data: bytes, position: int, header: BatchHeader) -> Iterator[Row]:
    kind = "LogAppendTime" if header.is_log_append_time else "CreateTime"
    marker = read_marker(data, position) if header.is_control else None
    for each in read_records(data, position):
        row: Row = {
            "batch": header.base_offset,
            "offset": each.offset,
            kind: each.timestamp,
            "keySize": -1 if each.key is None else len(each.key),
            "valueSize": -1 if each.value is None else len(each.value),
            "headerKeys": [name for name, _ in each.headers],
        }
        if marker is not None:
            row["endTxnMarker"] = "COMMIT" if marker.commit else "ABORT"
            row["coordinatorEpoch"] = marker.coordinator_epoch
        else:
            row |= json_field("key", each.key) | json_field("payload", each.value)
        yield row


def _offset_index(path: Path, _: bool) -> Iterator[Row]:
    base = _base_offset(path)
    ends = _batch_ends(path)
    for relative, position in _entries(path, _OFFSET_ENTRY):
        yield {"offset": base + relative, "position": position}
        if ends is not None and ends.get(position) != base + relative:
            raise _DoesNotFit(
                f"the index says that a batch at position {position} ends with offset "
                f"{base + relative}; the segment has {ends.get(position, 'none')} there"
            )


def _time_index(path: Path, _: bool) -> Iterator[Row]:
    base = _base_offset(path)
    last = -1
    for timestamp, relative in _entries(path, _TIME_ENTRY):
        yield {"timestamp": timestamp, "offset": base + relative}
        if timestamp < last:
            raise _DoesNotFit(f"timestamp {timestamp} comes after {last}")
        last = timestamp


def _transaction_index(path: Path, _: bool) -> Iterator[Row]:
    names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
    for entry in _entries(path, _ABORTED_ENTRY):
        yield dict(zip(names, entry, strict=True))


def _snapshot(path: Path, _: bool) -> Iterator[Row]:
    from tidelog.storage.snapshots import CorruptSnapshot, decode_snapshot

    try:
        entries = decode_snapshot(path.read_bytes())
    except CorruptSnapshot as error:
        raise _DoesNotFit(str(error)) from None
    for each in entries:
        yield {
            "producerId": each.producer_id,
            "producerEpoch": each.epoch,
            "coordinatorEpoch": each.coordinator_epoch,
            "currentTxnFirstOffset": each.transaction_first_offset,
            "lastTimestamp": each.timestamp,
            "lastSequence": each.last_sequence,
            "lastOffset": each.last_offset,
            "offsetDelta": each.offset_delta,
        }


def _entries(path: Path, entry: struct.Struct) -> Iterator[tuple[Any, ...]]:
    data = path.read_bytes()
    whole = len(data) - len(data) % entry.size
    yield from entry.iter_unpack(data[:whole])
    if whole < len(data):
        raise _DoesNotFit(f"{len(data) - whole} bytes at the end are no whole entry")


def _batch_ends(index: Path) -> dict[int, int] | None:
    """Last offset by position, of the batches of the segment beside the index; None if there is none."""
    segment = index.with_suffix(".log")
    if not segment.exists():
        return None
    return {at: header.last_offset for at, header in iterate_batches(segment.read_bytes())}


def _base_offset(path: Path) -> Offset:
    if not path.stem.isdigit():
        raise SettingsError(f"{path}: an index is named by its first offset, such as {0:020}.index")
    return Offset(int(path.stem))


_KINDS: dict[str, Callable[[Path, bool], Iterator[Row]]] = {
    ".log": _segment,
    ".index": _offset_index,
    ".timeindex": _time_index,
    ".txnindex": _transaction_index,
    ".snapshot": _snapshot,
}
