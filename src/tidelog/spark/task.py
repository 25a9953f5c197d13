"""What runs in a Spark task: one range of one partition, as Arrow batches with Spark's column names."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.client.reading import PartitionReader
from tidelog.errors import OffsetOutOfRange
from tidelog.names import TopicPartition
from tidelog.spark.cluster import Brokers
from tidelog.spark.options import SourceOptions
from tidelog.spark.planning import Range, lost_data

_OURS = {"timestampType": "timestamp_type"}
_PLACE = "offset"


class ReadRange:
    """Reads ranges; it travels to the executors, so it holds no connection."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def __call__(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        """Its records, bounded in memory; what was deleted in the meantime is an error, or reported and left out."""
        if wanted.to_latest:
            wanted = self._as_of_now(wanted)
        position = wanted.start
        # The offset is needed to go on after a loss, and to have a column at all.
        ours = [_OURS.get(name, name) for name in self._columns]
        extra = [] if _PLACE in ours or (self._options.fail_on_data_loss and ours) else [_PLACE]
        begun = False
        while position < wanted.end:
            try:
                for batch in self._batches(wanted, position, [*ours, *extra]):
                    begun = True
                    if _PLACE in batch.schema.names and batch.num_rows:
                        position = batch.column(_PLACE)[-1].as_py() + 1
                    yield self._as_spark_wants_it(batch)
                return
            except OffsetOutOfRange as error:
                missed = begun or not wanted.from_earliest
                position = self._after_loss(wanted, position, error, missed=missed)

    def _as_of_now(self, wanted: Range) -> Range:
        """A plan may be old: the range up to where the log ends now; all of the log, if that is what the query reads."""
        brokers = Brokers(self._options)
        tp = TopicPartition(wanted.topic, wanted.partition)
        end = brokers.latest([tp])[tp]
        if end < wanted.start and wanted.from_earliest:
            # The topic was made anew, and is shorter.
            return replace(wanted, start=brokers.earliest([tp])[tp], end=end)
        return replace(wanted, end=max(end, wanted.start))

    def _batches(self, wanted: Range, start: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
        with PartitionReader(
            wanted.topic,
            wanted.partition,
            start,
            wanted.end,
            columns=columns,
            unit="us",
            config=self._options.kafka,
        ) as reader:
            yield from reader

    def _as_spark_wants_it(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [batch.column(place) for place in range(len(self._columns))]
        if "headers" in self._columns:
            place = self._columns.index("headers")
            arrays[place] = _null_if_none(arrays[place])
        if not arrays:
            return batch.select([])
        return pa.RecordBatch.from_arrays(arrays, names=list(self._columns))

    def _after_loss(
        self, wanted: Range, position: int, error: OffsetOutOfRange, *, missed: bool
    ) -> int:
        """Where to go on; what is gone before a query began that reads what there is, is not missed."""
        tp = TopicPartition(wanted.topic, wanted.partition)
        earliest = Brokers(self._options).earliest([tp])[tp]
        if not missed and earliest > position:
            return earliest
        lost = f"{tp}: offsets {position} to {min(earliest, wanted.end) - 1} are gone"
        if self._options.fail_on_data_loss or earliest <= position:
            raise lost_data([lost if earliest > position else str(error)]) from None
        warn(f"data was lost: {lost}")
        return earliest


def warn(text: str) -> None:
    """To where Spark puts what its Python workers have to say."""
    sys.stderr.write(f"tidelog: {text}\n")
    sys.stderr.flush()


def _null_if_none(headers: Any) -> Any:
    """As Spark's own connector: null for a record that has no headers."""
    none = pc.equal(pc.list_value_length(headers), 0)
    return pc.if_else(none, pa.scalar(None, headers.type), headers)
