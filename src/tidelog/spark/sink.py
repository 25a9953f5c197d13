"""`df.write.format("tidelog")` and `df.writeStream.format("tidelog")`: rows become records, each task in one transaction.

Columns are those of Spark's own connector: `value` (binary or string), and if they are there `key`, `topic`, `partition` and
`headers`; the option `topic` goes before the column.

A task writes its rows in a transaction, and with them, in the same transaction, that it has done so for this micro-batch: as
the offset of a group that is named after the sink and the task.

1. It makes a producer whose transactional id is the sink's and the task's.  That fences every other attempt of this task,
   which then can commit nothing.
2. It reads what the group says.  If that is this batch, its rows must be those that were written, which a checksum of them
   tells: then nothing is left to do.  If they are others, the rows are split over tasks in another way than in the first try, and no
   task can know which of them are written: the batch is refused.
3. It writes the rows, the batch id and the checksum, and commits all.

So a batch that is done again after a crash, a task that is tried again and one that runs twice by speculation write once,
if the rows of a task are the same each time, as they are with replayable sources and without shuffles that lose their order.  Readers
must read with isolation.level=read_committed.  The sink's name is the id of the query, which its checkpoint keeps, or the option `sinkId`; a batch
write with `sinkId` and `batchId`, as in `foreachBatch`, is done once as well.  Batches of two queries cannot share a `sinkId`: each counts them from
zero, and the second one's would be taken for written.

Absent: output mode "update", which Spark does not let a Python sink have (`tidelog.spark.to_topic` does it with `foreachBatch`); one transaction for all tasks of a batch; a reader may see some tasks' rows before others' are committed.
"""

import json
import time
import uuid
import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tidelog.client.blocking_producer import Producer
from tidelog.client.group_requests import CommittedOffset
from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError, TidelogError
from tidelog.names import TopicPartition
from tidelog.spark.cluster import admin_for
from tidelog.spark.failures import plainly
from tidelog.spark.options import SinkOptions

_TYPES = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
Record = tuple[
    str, bytes | None, bytes | None, list[tuple[str, bytes | None]], int | None, int | None
]
"""Topic, value, key, headers, time and partition."""

_TIMEOUT_MS = 15 * 60_000
"""The longest transaction that brokers allow by default; a task's may take as long as the task."""
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """The columns must be the sink's; SettingsError says what is wrong with them."""
    kinds = {each.name: each.dataType.simpleString() for each in schema.fields}
    for name, kind in kinds.items():
        if name not in _TYPES:
            raise SettingsError(f"column {name!r} cannot be written; there are {', '.join(_TYPES)}")
        if kind not in _TYPES[name]:
            raise SettingsError(f"column {name} must be {' or '.join(_TYPES[name])}, not {kind}")
    if "value" not in kinds:
        raise SettingsError("the column value is missing")
    if not options.topic and "topic" not in kinds:
        raise SettingsError("the option topic is missing, or a column topic")


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    rows: int
    group: str


class TidelogWriter(DataSourceArrowWriter):
    """A batch write: as one micro-batch of a sink that nobody will write to again."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._sink = options.sink_id or f"batch-{uuid.uuid4()}"

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = _task()
        query = task.getLocalProperty(_QUERY) or ""  # of `foreachBatch`
        batch = self._options.batch_id
        return write_task(self._options, self._sink, task.partitionId(), batch, iterator, query)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._forget(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._forget(messages)

    def _forget(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was noted for tasks that are tried again is of no use now, unless the caller named the write."""
        done = {each.group for each in messages if isinstance(each, Written) and each.rows}
        if done and not self._options.sink_id:
            admin_for(self._options.kafka).delete_groups(sorted(done))


class TidelogStreamWriter(DataSourceStreamArrowWriter):
    """A stream's sink."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = _task()
        sink = self._options.sink_id or task.getLocalProperty(_QUERY)
        batch = task.getLocalProperty(_BATCH)
        if sink is None or batch is None:
            raise SettingsError("Spark did not tell the sink which query and batch it writes")
        query = task.getLocalProperty(_QUERY) or ""
        return write_task(self._options, sink, task.partitionId(), int(batch), iterator, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: each task has committed."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: a task that failed has aborted, one that was killed is fenced by the next."""


def write_task(
    options: SinkOptions,
    sink: str,
    task: int,
    batch: int,
    rows: Iterator[pa.RecordBatch],
    query: str = "",
) -> Written:
    """Write one task's rows, unless that has been done for this batch."""
    name = f"tidelog-sink-{sink}-{task}"
    first = next((each for each in rows if each.num_rows), None)
    if first is None:
        return Written(0, name)
    all_rows = _chain(first, rows)
    settings = {"transaction.timeout.ms": str(_TIMEOUT_MS), **options.kafka}
    began = time.monotonic()
    with Producer({**settings, "transactional.id": name}) as producer:
        producer.init_transactions()
        noted = _noted(options, name)
        if noted is not None:
            noted.check(sink, query)
            if noted.batch >= batch:
                checksum = _Checksum()
                for each in all_rows:  # Spark wants its rows taken, too
                    for record in _records(each, options.topic):
                        checksum.add(record)
                if noted.batch == batch and noted.checksum not in ("", checksum.text()):
                    raise _split_changed(task, batch)
                return Written(0, name)
        checksum = _Checksum()
        try:
            with producer.transaction():
                for each in all_rows:
                    for record in _records(each, options.topic):
                        checksum.add(record)
                        producer.send(*record)
                # Any partition that is there will do; a group keeps offsets of such only.
                topic = options.topic or first.column("topic")[0].as_py()
                note = _Note(batch, checksum.text(), query)
                producer.send_offsets({TopicPartition(topic, 0): note.to_offset()}, name)
        except TidelogError as error:
            took_s, timeout_ms = time.monotonic() - began, int(settings["transaction.timeout.ms"])
            if took_s * 1000 < timeout_ms:
                raise
            raise _out_of_time(took_s, timeout_ms) from error
    return Written(checksum.count, name)


@dataclass(frozen=True, slots=True)
class _Note:
    """What a task has noted with its rows, as an offset of its group."""

    batch: int
    checksum: str
    """Of the rows; empty in notes that were made without."""
    query: str
    """The id of the streaming query, if there was one."""

    def to_offset(self) -> CommittedOffset:
        text = json.dumps({"checksum": self.checksum, "query": self.query})
        return CommittedOffset(self.batch, text)

    def check(self, sink: str, query: str) -> None:
        if self.query and query and self.query != query:
            raise SettingsError(
                f"sinkId {sink!r} has batches up to {self.batch} of another query (id {self.query}; this is {query}), and "
                "this one's would be taken for written: name another sinkId, or start from the checkpoint of that query"
            )


def _noted(options: SinkOptions, name: str) -> _Note | None:
    found = admin_for(options.kafka).group_offsets(name, require_stable=True)
    if not found:
        return None
    newest = max(found.values(), key=lambda each: each.offset)
    told = json.loads(newest.metadata) if newest.metadata else {}
    return _Note(newest.offset, told.get("checksum", ""), told.get("query", ""))


class _Checksum:
    """The rows of a task, in a word: their number and a CRC over them in their order."""

    def __init__(self) -> None:
        self.count = 0
        self._crc = 0

    def add(self, record: Record) -> None:
        topic, value, key, _, _, partition = record
        crc = zlib.crc32(value or b"", self._crc)
        crc = zlib.crc32(key or b"", crc)
        self._crc = zlib.crc32(b"%d %d %d" % (len(topic), len(value or b""), partition or 0), crc)
        self.count += 1

    def text(self) -> str:
        return f"{self.count}-{self._crc:08x}"


def _split_changed(task: int, batch: int) -> TidelogError:
    return TidelogError(
        f"batch {batch} is written in part, and task {task} has other rows now than it wrote then: they are split over tasks in "
        "another way, so some would be lost or come twice. Start the query with the minPartitions, maxRecordsPerPartition, "
        "spark.sql.shuffle.partitions and input that it had; they may change when the batch is done"
    )


def _out_of_time(took_s: float, timeout_ms: int) -> TidelogError:
    """The truth about a transaction that the coordinator has aborted because it took too long."""
    return TidelogError(
        f"the task wrote for {took_s:.0f} s, longer than kafka.transaction.timeout.ms={timeout_ms}, so its transaction was aborted: "
        "raise that (brokers allow up to transaction.max.timeout.ms), or give a task fewer rows, with maxOffsetsPerTrigger or more partitions"
    )


def _records(rows: pa.RecordBatch, topic: str) -> Iterator[Record]:
    """The rows as what `Producer.send` takes."""
    names = set(rows.schema.names)
    count: int = rows.num_rows

    def column(name: str) -> list[Any]:
        return rows.column(name).to_pylist() if name in names else [None] * count

    topics = [topic] * count if topic else column("topic")
    columns = (topics, column("value"), column("key"), column("headers"), column("partition"))
    for where, value, key, headers, partition in zip(*columns, strict=True):
        if where is None:
            raise SettingsError("a row has no topic, and there is no option topic")
        pairs = [(each["key"], each["value"]) for each in headers or ()]
        yield where, _octets(value), _octets(key), pairs, None, partition


def _octets(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _task() -> TaskContext:
    found = TaskContext.get()
    assert found is not None, "this runs in a task"
    return found
