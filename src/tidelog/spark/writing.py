"""What a task of the load does: fetch a range, decode it, and write it to files that nobody sees until the driver commits them.

A task that dies leaves files that no commit names; `compact` removes them when they are old.  A range is read with explicit ends, so a
task that is tried again writes the same rows.
"""

import errno
import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.client.reading import PartitionReader
from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError, TidelogError
from tidelog.spark.lake import DATA, LakeFile
from tidelog.spark.planning import Range

COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")
DECODERS = ("raw", "json", "avro")
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO}
_FRAME = 5
"""Bytes of a schema id with its magic zero."""
_MOST_OPEN = 24
"""Hours whose files are open at once; with more the one that was used least recently ends its file."""
_MOST_BUFFERED = 64 * 1024 * 1024
"""Bytes of rows that wait for more of their hours, so that times that are scattered do not make a file each."""


@dataclass(frozen=True, slots=True)
class LoadTask:
    """What one task is to do."""

    wanted: Range
    table: str
    kafka: Mapping[str, str]
    decode: str = "raw"
    registry: str = ""
    window_ms: int = 0
    """Length of the windows in which rows are counted for the audit; 0 for none."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What it has done."""

    wanted: Range
    files: list[LakeFile] = field(default_factory=list)
    windows: dict[int, int] = field(default_factory=dict)
    """Rows by the beginning of the window that their times lie in."""

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "Loaded":
        parsed = json.loads(text)
        windows = {int(start): count for start, count in parsed["windows"].items()}
        files = [LakeFile(**each) for each in parsed["files"]]
        return cls(Range(**parsed["wanted"]), files, windows)


def load_range(task: LoadTask) -> Loaded:
    """Write the files of one range; on failure none is left, as far as that is possible."""
    decode = decoder(task.decode, task.registry)
    files = _Files(task)
    wanted = task.wanted
    windows: Counter[int] = Counter()
    try:
        with PartitionReader(
            wanted.topic,
            wanted.partition,
            wanted.start,
            wanted.end,
            columns=COLUMNS,
            unit="us",
            config=dict(task.kafka),
        ) as reader:
            for batch in reader:
                if task.window_ms:
                    windows.update(_windows(batch, task.window_ms))
                for hour, rows in _by_hour(decode(batch)):
                    files.write(hour, rows)
        return Loaded(wanted, files.close(), dict(windows))
    except BaseException as error:
        files.drop()
        if isinstance(error, OSError) and error.errno in _DISK:
            raise TidelogError(
                f"{task.table} cannot be written: {error}; nothing of it becomes visible, and the next load goes on from here"
            ) from None
        raise


def decoder(kind: str, registry: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """What adds `json` and `error` to the rows."""
    if kind == "raw":
        return lambda rows: _with(rows, pa.nulls(rows.num_rows, pa.string()), None)
    if kind == "json":
        return lambda rows: _decoded(rows, _json_text)
    if kind == "avro":
        if not registry:
            raise SettingsError("decoding Avro needs the address of a schema registry")
        return lambda rows: _decoded(rows, _avro(registry))
    raise SettingsError(f"decode={kind!r} must be one of {', '.join(DECODERS)}")


def _decoded(rows: pa.RecordBatch, text_of: Callable[[bytes], str]) -> pa.RecordBatch:
    texts: list[str | None] = []
    errors: list[str | None] = []
    for value in rows.column("value").to_pylist():
        text = error = None
        if value is not None:
            try:
                text = text_of(value)
            except Exception as wrong:
                if is_elsewhere(wrong):
                    raise
                error = f"{type(wrong).__name__}: {wrong}"[:500]
        texts.append(text)
        errors.append(error)
    return _with(rows, pa.array(texts, pa.string()), pa.array(errors, pa.string()))


def is_elsewhere(wrong: Exception) -> bool:
    """Whether it is the registry that is at fault, and not the message: then all messages would look bad."""
    from tidelog.schemas.errors import RegistryError, RegistryUnreachable

    failed = isinstance(wrong, RegistryError) and wrong.status >= 500
    return failed or isinstance(wrong, RegistryUnreachable | OSError)


def _with(rows: pa.RecordBatch, texts: Any, errors: Any) -> pa.RecordBatch:
    if errors is None:
        errors = pa.nulls(rows.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([*rows.columns, texts, errors], schema=DATA)


def _json_text(value: bytes) -> str:
    """The JSON, without the schema id that may be in front of it: no JSON begins with a zero."""
    text = (value[_FRAME:] if value[:1] == b"\0" else value).decode()
    json.loads(text)
    return text


_deserializers: dict[str, Any] = {}


def _avro(registry: str) -> Callable[[bytes], str]:
    """Decodes by the schema id in front of each value; schemas are looked up once a process."""
    if registry not in _deserializers:
        from tidelog.schemas.avro import AvroDeserializer
        from tidelog.schemas.client import RegistryClient

        _deserializers[registry] = AvroDeserializer(RegistryClient(registry))
    deserialize = _deserializers[registry]
    return lambda value: json.dumps(deserialize(value), default=_plain)


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)


def _windows(rows: pa.RecordBatch, window_ms: int) -> dict[int, int]:
    """Rows by window, as every other tier of the audit counts them."""
    times = pc.floor(
        pc.divide(pc.cast(rows.column("timestamp"), pa.int64()).cast(pa.float64()), window_ms * 1e3)
    )
    counted = pc.value_counts(times).to_pylist()
    return {int(each["values"]) * window_ms: each["counts"] for each in counted}


def _by_hour(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each hour since 1970, in their order."""
    hours = pc.floor(
        pc.divide(pc.cast(rows.column("timestamp"), pa.int64()).cast(pa.float64()), 3.6e9)
    )
    found = pc.unique(hours).to_pylist()
    for hour in sorted(found):
        yield int(hour), rows if len(found) == 1 else rows.filter(pc.equal(hours, hour))


class _Files:
    """The files of one task.  Rows wait in memory until there are many of their hour, or of all together."""

    def __init__(self, task: LoadTask) -> None:
        self._task = task
        self._waiting: dict[int, list[pa.RecordBatch]] = {}
        self._waiting_bytes: Counter[int] = Counter()
        self._open: dict[int, _File] = {}
        self._done: list[LakeFile] = []

    def write(self, hour: int, rows: pa.RecordBatch) -> None:
        self._waiting.setdefault(hour, []).append(rows)
        self._waiting_bytes[hour] += rows.nbytes
        while self._waiting_bytes.total() > _MOST_BUFFERED:
            self._flush(self._waiting_bytes.most_common(1)[0][0])

    def close(self) -> list[LakeFile]:
        while self._waiting:
            self._flush(next(iter(self._waiting)))
        while self._open:
            self._done.append(self._open.pop(next(iter(self._open))).close())
        return self._done

    def drop(self) -> None:
        for file in self._open.values():
            file.drop()
        for done in self._done:
            (Path(self._task.table) / done.path).unlink(missing_ok=True)

    def _flush(self, hour: int) -> None:
        """Write what waits for one hour."""
        rows = self._waiting.pop(hour)
        del self._waiting_bytes[hour]
        file = self._open.pop(hour, None) or _File(self._task, hour)
        self._open[hour] = file
        for each in rows:
            file.write(each)
        if len(self._open) > _MOST_OPEN:
            self._done.append(self._open.pop(next(iter(self._open))).close())


class _File:
    """A Parquet file in its final place, under a name that is not used twice."""

    def __init__(self, task: LoadTask, hour: int) -> None:
        when = datetime.fromtimestamp(hour * 3600, UTC)
        self._values = {
            "topic": task.wanted.topic,
            "date": when.date().isoformat(),
            "hour": str(when.hour),
        }
        directory = "/".join(f"{name}={value}" for name, value in self._values.items())
        self._path = f"{directory}/{task.wanted.partition}-{uuid.uuid4()}.zstd.parquet"
        self._full = Path(task.table) / self._path
        self._full.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(self._full, DATA, compression="zstd")
        self._rows = self._quarantined = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._rows += rows.num_rows
        self._quarantined += rows.num_rows - rows.column("error").null_count
        self._writer.write_batch(rows)

    def close(self) -> LakeFile:
        """On disk before it can be committed."""
        self._writer.close()
        handle = os.open(self._full, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        return LakeFile(
            self._path,
            self._full.stat().st_size,
            self._rows,
            self._quarantined,
            self._values,
            int(time.time() * 1000),
        )

    def drop(self) -> None:
        with suppress(OSError):  # the disk is full, perhaps; the file goes anyway
            self._writer.close()
        self._full.unlink(missing_ok=True)
