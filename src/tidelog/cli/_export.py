"""Messages into files: JSON lines, CSV, Parquet, or text with percent directives.

    with open_export("parquet", "orders.parquet") as export:
        export.write(messages)

Without a path they go to the standard output.  Parquet needs pyarrow, which the extra `tidelog[arrow]` brings.
"""

import csv
import io
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from tidelog.cli._formats import Formatter, formatter, json_field
from tidelog.errors import SettingsError

if TYPE_CHECKING:
    from tidelog.client.message import Message

CSV, PARQUET = "csv", "parquet"

_ROW_GROUP = 50_000
_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


class Export(ABC):
    """Takes messages; what they become is there when it is closed."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._half = None if path is None else f"{path}.part"
        """Written until it is whole, so that nobody takes half of it for all."""
        self._file: IO[bytes] = (
            sys.stdout.buffer if self._half is None else open(self._half, "wb")  # noqa: SIM115
        )

    @abstractmethod
    def write(self, messages: "Sequence[Message]") -> None: ...

    def close(self) -> None:
        self._file.flush()
        if self._half is not None and self._path is not None:
            self._file.close()
            os.replace(self._half, self._path)

    def discard(self) -> None:
        """Something went wrong: leave no file behind."""
        if self._half is not None:
            self._file.close()
            os.unlink(self._half)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def open_export(format: str, path: str | None, show: Formatter | None = None) -> Export:
    """What writes messages in a format; `show` stands for a format that is no text."""
    kind = format or ""
    if path is not None and not kind:
        kind = os.path.splitext(path)[1].removeprefix(".")
        kind = "json" if kind in ("jsonl", "ndjson") else kind
        if kind not in ("json", CSV, PARQUET):
            raise SettingsError(
                f"--output {path}: say with --format json, csv or parquet what it shall be"
            )
    if kind == PARQUET:
        _check_parquet(path)
    make = show or (formatter(kind) if kind not in (CSV, PARQUET) else None)
    if make is not None:
        return _Text(path, make)
    return (_Parquet if kind == PARQUET else _Csv)(path)


class _Text(Export):
    def __init__(self, path: str | None, show: Formatter) -> None:
        super().__init__(path)
        self._show = show

    def write(self, messages: "Sequence[Message]") -> None:
        # Flushed every time: what has come is seen at once, and a full pipe holds us up rather than fills memory.
        self._file.write(b"".join(map(self._show, messages)))
        self._file.flush()


class _Csv(Export):
    """Texts as they are, what is no UTF-8 with signs in its place; headers as JSON."""

    def __init__(self, path: str | None) -> None:
        super().__init__(path)
        self._file.write(",".join(_COLUMNS).encode() + b"\n")

    def write(self, messages: "Sequence[Message]") -> None:
        out = io.StringIO()
        rows = csv.writer(out, lineterminator="\n")
        for each in messages:
            rows.writerow([*each[:4], _text(each.key), _text(each.value), _headers(each)])
        self._file.write(out.getvalue().encode())
        self._file.flush()


class _Parquet(Export):
    """Columns with the names of the messages' fields; keys and values are bytes."""

    def __init__(self, path: str | None) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        super().__init__(path)
        header = pa.struct([("name", pa.string()), ("value", pa.binary())])
        types: list[Any] = [pa.string(), pa.int32(), pa.int64(), pa.timestamp("ms", tz="UTC")]
        types += [pa.binary(), pa.binary(), pa.list_(header)]
        self._pa = pa
        self._schema = pa.schema(list(zip(_COLUMNS, types, strict=True)))
        self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd")
        self._rows: list[Message] = []

    def write(self, messages: "Sequence[Message]") -> None:
        self._rows += messages
        while len(self._rows) >= _ROW_GROUP:
            self._put(self._rows[:_ROW_GROUP])
            del self._rows[:_ROW_GROUP]

    def close(self) -> None:
        if self._rows:
            self._put(self._rows)
        self._writer.close()
        super().close()

    def discard(self) -> None:
        self._writer.close()  # which it would try by itself, too late
        super().discard()

    def _put(self, rows: "list[Message]") -> None:
        columns = [[row[place] for row in rows] for place in range(len(_COLUMNS) - 1)]
        columns.append([[{"name": n, "value": v} for n, v in row.headers] for row in rows])
        arrays = [
            self._pa.array(column, field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_table(self._pa.Table.from_arrays(arrays, schema=self._schema))


def _check_parquet(path: str | None) -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise SettingsError(
            "Parquet needs pyarrow; install it with: pip install 'tidelog[arrow]'"
        ) from None
    if path is None and sys.stdout.isatty():
        raise SettingsError("Parquet is nothing for a terminal; name a file with --output")


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode(errors="replace")


def _headers(message: "Message") -> str:
    if not message.headers:
        return ""
    said = [{"name": name, **json_field("value", value)} for name, value in message.headers]
    return json.dumps(said, ensure_ascii=False)
