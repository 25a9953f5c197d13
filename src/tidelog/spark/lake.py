"""The lake's table: a Delta table whose log holds, commit by commit, files and the offsets that they end at.

The end of each partition is a `txn` action of Delta, which is made for this: `load:<topic>-<partition>` at a version that is
the offset.  Files and offsets are in one commit, so whatever crashes, they agree; and of two commits that go on from the same offset
the log takes one.  A `txn` has room for a number only, so of a topic's id it keeps the first 60 bits: `topic:<topic>`.

Columns: topic, date and hour (UTC) of the record's time, by which files lie in directories; partition, offset, timestamp, key,
value, headers as in the topic; `json`, what the value says, if the load decodes; `error`, why it could not be decoded.  Rows with an
`error` are the quarantine: they are in the same commit, and `tidelog.spark.jobs.table` leaves them out.

Absent: object stores; a table must be a directory that driver and tasks see.  `tidelog.spark.parquet_lake` is the same without Delta.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError, TidelogError
from tidelog.names import TopicPartition
from tidelog.spark.planning import Offsets, TopicIds

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
DATA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.field("element", _HEADER))),
        ("json", pa.string()),
        ("error", pa.string()),
    ]
)
"""What is in the files."""

SCHEMA = pa.schema([("topic", pa.string()), ("date", pa.date32()), ("hour", pa.int32()), *DATA])
PARTITION_BY = ["topic", "date", "hour"]
_HISTORY = 200
"""Commits that are looked through for what was not told to the audit."""


class LoadRefused(TidelogError):
    """The table has gone on without this load: another one loads the same topic into it."""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file that a task has written and nobody sees yet."""

    path: str
    size: int
    rows: int
    quarantined: int
    partition_values: Mapping[str, str] = field(default_factory=dict)
    written_ms: int = 0

    def action(self) -> AddAction:
        # The count and nothing else: where a file has statistics of some columns, deltalake's dataset takes every other
        # column for empty and a filter on it finds no row.  Readers prune by directory, and by what Parquet itself knows.
        stats = json.dumps({"numRecords": self.rows})
        return AddAction(self.path, self.size, self.partition_values, self.written_ms, True, stats)


Note = Mapping[str, Any]
"""What a commit says beside its files."""


class Lake:
    """One table as of one version."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.staging = path
        """Where tasks write: into place, because nobody sees a file that no commit names."""
        self._table: DeltaTable | None = None
        if DeltaTable.is_deltatable(path):
            self._table = DeltaTable(path)
            self._check()
        elif Path(path).is_dir() and any(Path(path).iterdir()):
            raise SettingsError(
                f"{path} is not empty and not a Delta table; name another directory"
            )

    @property
    def version(self) -> int:
        return -1 if self._table is None else self._table.version()

    @property
    def table(self) -> DeltaTable:
        if self._table is None:
            raise SettingsError(f"there is no table at {self.path}")
        return self._table

    def create(self) -> None:
        """Make the table if it is not there; two may do so at once."""
        if self._table is None:
            Path(self.path).mkdir(parents=True, exist_ok=True)
            DeltaTable.create(self.path, SCHEMA, mode="ignore", partition_by=PARTITION_BY)
            self._table = DeltaTable(self.path)
            self._check()

    def offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where each partition ends in the table; those that are not in it are left out."""
        if self._table is None:
            return {}
        found = {tp: self._table.transaction_version(_app(tp)) for tp in partitions}
        return {tp: offset for tp, offset in found.items() if offset is not None}

    def topic_ids(self, topics: Iterable[str]) -> TopicIds:
        """The beginnings of the ids of the topics whose offsets these are; those of tables that were made without are left out."""
        if self._table is None:
            return {}
        found = {name: self._table.transaction_version(_topic_app(name)) for name in topics}
        return {name: _id_text(number) for name, number in found.items() if number is not None}

    def notes(self) -> Iterator[tuple[int, Note]]:
        """What earlier commits of loads said, the newest first."""
        if self._table is None:
            return
        for each in self._table.history(_HISTORY):
            yield int(each["version"]), each

    def commit(self, files: Sequence[LakeFile], ends: Offsets, ids: TopicIds, note: Note) -> int:
        """Make files visible and move the offsets, both or neither; LoadRefused if another load was faster."""
        marks = [Transaction(_app(tp), end) for tp, end in ends.items()]
        marks += [Transaction(_topic_app(name), _id_number(each)) for name, each in ids.items()]
        try:
            self.table.create_write_transaction(
                [each.action() for each in files],
                "append",
                self.table.schema(),
                PARTITION_BY,
                commit_properties=CommitProperties(
                    custom_metadata={name: str(value) for name, value in note.items()},
                    app_transactions=marks,
                ),
            )
        except DeltaError as error:
            if isinstance(error, CommitFailedError) and "oncurrent" in str(error):
                raise LoadRefused(
                    f"another load of the same topics has written to {self.path} in the meantime ({error}); "
                    "nothing of this one was added: run one at a time"
                ) from None
            raise TidelogError(f"{self.path}: {error}") from None
        except OSError as error:
            raise TidelogError(f"{self.path} cannot be written: {error}") from None
        self.table.update_incremental()
        return self.table.version()

    def _check(self) -> None:
        assert self._table is not None
        there = {each.name for each in self._table.schema().fields}
        missing = [name for name in SCHEMA.names if name not in there]
        if missing:
            raise SettingsError(
                f"{self.path} is a table of something else: it lacks {', '.join(missing)}"
            )


def _app(tp: TopicPartition) -> str:
    return f"load:{tp.topic}-{tp.partition}"


def _topic_app(topic: str) -> str:
    return f"topic:{topic}"


def _id_number(topic_id: str) -> int:
    return int(topic_id.replace("-", "")[:15], 16)


def _id_text(number: int) -> str:
    digits = f"{number:015x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:]}"
