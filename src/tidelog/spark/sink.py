"""`df.write.format("tidelog")` and `df.writeStream.format("tidelog")`: rows become records, each task in one transaction.

Columns are those of Spark's own connector: `value` (binary or string), and if they are there `key`, `topic`, `partition` and
`headers`; the option `topic` goes before the column.

A task writes its rows in a transaction, and with them, in the same transaction, that it has done so for this micro-batch: as
the offset of a group that is named after the sink and the task.

1. It makes a producer whose transactional id is the sink's and the task's.  That fences every other attempt of this task,
   which then can commit nothing.
2. It reads what the group says.  If that is this batch or a later one, the rows are written: nothing is left to do.
3. It writes the rows and the batch id, and commits both.

So a batch that is done again after a crash, a task that is tried again and one that runs twice by speculation write once,
if the rows of a task are the same each time, as they are with replayable sources and without shuffles that lose their order.  Readers
must read with isolation.level=read_committed.  The sink's name is the id of the query, which its checkpoint keeps, or the option `sinkId`; a batch
write with `sinkId` and `batchId`, as in `foreachBatch`, is done once as well.

Absent: output mode "update", which Spark does not let a Python sink have (`tidelog.spark.to_topic` does it with `foreachBatch`); one transaction for all tasks of a batch; a reader may see some tasks' rows before others' are committed.
"""

import uuid
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

from tidelog.client.producer import Producer
from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError
from tidelog.names import TopicPartition
from tidelog.spark.cluster import admin_for
from tidelog.spark.options import SinkOptions

_TYPES = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
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

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        batch = self._options.batch_id
        return write_task(self._options, self._sink, _task().partitionId(), batch, iterator)

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

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = _task()
        sink = self._options.sink_id or task.getLocalProperty(_QUERY)
        batch = task.getLocalProperty(_BATCH)
        if sink is None or batch is None:
            raise SettingsError("Spark did not tell the sink which query and batch it writes")
        return write_task(self._options, sink, task.partitionId(), int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: each task has committed."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: a task that failed has aborted, one that was killed is fenced by the next."""


def write_task(
    options: SinkOptions, sink: str, task: int, batch: int, rows: Iterator[pa.RecordBatch]
) -> Written:
    """Write one task's rows, unless that has been done for this batch."""
    name = f"tidelog-sink-{sink}-{task}"
    written = 0
    first = next((each for each in rows if each.num_rows), None)
    if first is None:
        return Written(0, name)
    with Producer({**options.kafka, "transactional.id": name}) as producer:
        producer.init_transactions()
        noted = admin_for(options.kafka).group_offsets(name, require_stable=True)
        if noted and max(each.offset for each in noted.values()) >= batch:
            for _ in rows:
                pass  # Spark wants its rows taken
            return Written(0, name)
        with producer.transaction():
            for each in _chain(first, rows):
                written += _send(producer, each, options.topic)
            # Any partition that is there will do; a group keeps offsets of such only.
            topic = options.topic or first.column("topic")[0].as_py()
            producer.send_offsets({TopicPartition(topic, 0): batch}, name)
    return Written(written, name)


def _send(producer: Producer, rows: pa.RecordBatch, topic: str) -> int:
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
        producer.send(where, _octets(value), _octets(key), pairs, None, partition)
    return count


def _octets(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _task() -> TaskContext:
    found = TaskContext.get()
    assert found is not None, "this runs in a task"
    return found
