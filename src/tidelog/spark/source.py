"""`spark.read.format("tidelog")` and `spark.readStream.format("tidelog")`: the way in for Spark.

    spark.read.format("tidelog").option("kafka.bootstrap.servers", "h:9092").option("subscribe", "clicks").load()

Schema and options are those of Spark's own Kafka connector (see `tidelog.spark.options`).  A task reads one range of one
partition from its leader, and hands Arrow batches to Spark.

Spark does not tell a Python source which columns a query uses.  Whoever needs few says so with a schema, in any order, and
only these are decoded: `.schema("value binary, offset bigint")`.

Spark plans a batch frame once and keeps the plan, however often the frame is used.  So a range that ends where the log ends does
not say where that is: its task asks, each time it runs, and a frame or a view sees what has been written since.

Absent: filters that become offsets.  Spark keeps those of a frame's first use for all later ones, which would get too few
rows; `assign`, `startingOffsets`, `startingTimestamp` and their like say the same for good.  Partitions that a topic gets are read by frames made
afterwards.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.errors import SettingsError
from tidelog.spark.cluster import Brokers
from tidelog.spark.failures import plainly
from tidelog.spark.options import (
    EARLIEST,
    LATEST,
    SourceOptions,
    sink_options,
    source_options,
    wants_headers,
)
from tidelog.spark.planning import Range, lost_data, split, without_lost
from tidelog.spark.task import ReadRange, warn

_HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
COLUMNS: Mapping[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": _HEADERS,
}


class TidelogDataSource(DataSource):
    """What Spark finds under the name "tidelog"."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType:
        names = [name for name in COLUMNS if name != "headers" or wants_headers(self.options)]
        return StructType([StructField(name, COLUMNS[name]) for name in names])

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        options = source_options(self.options, streaming=False)
        return TidelogReader(options, columns_of(schema))

    @plainly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from tidelog.spark.stream import TidelogStreamReader

        return TidelogStreamReader(source_options(self.options, streaming=True), columns_of(schema))

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from tidelog.spark.sink import TidelogWriter, check_schema

        if overwrite:
            raise SettingsError("a topic cannot be overwritten: use mode append")
        options = sink_options(self.options)
        check_schema(schema, options)
        return TidelogWriter(options)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from tidelog.spark.sink import TidelogStreamWriter, check_schema

        options = sink_options(self.options)
        check_schema(schema, options)
        return TidelogStreamWriter(options)


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, value: Range) -> None:
        super().__init__(value)


class TidelogReader(DataSourceReader):
    """A batch query: planned on the driver, read by tasks."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._read = ReadRange(options, tuple(columns))

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        brokers = Brokers(options)
        partitions = brokers.partitions()
        start = brokers.resolve(options.starting, partitions, "starting")
        end = brokers.resolve(options.ending, partitions, "ending")
        for tp in partitions:
            if start[tp] > end[tp]:
                raise SettingsError(f"{tp}: the start {start[tp]} is after the end {end[tp]}")
        begin, end, lost = without_lost(
            start, end, brokers.earliest(partitions), brokers.latest(partitions)
        )
        if lost:
            if options.fail_on_data_loss:
                raise lost_data(lost)
            warn(f"data was lost: {'; '.join(lost)}")
        whole = [
            Range(
                *tp,
                begin[tp],
                end[tp],
                from_earliest=options.starting.at(tp) == EARLIEST,
                to_latest=options.ending.at(tp) == LATEST,
            )
            for tp in sorted(end)
        ]
        cut = split(
            [each for each in whole if len(each) or each.to_latest],
            options.min_partitions,
            options.max_records_per_partition,
        )
        return [RangePartition(each) for each in cut]

    @plainly
    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Where there is nothing to read Spark makes a task all the same, for nothing.
        if partition.value is not None:
            yield from self._read(partition.value)


def columns_of(schema: StructType) -> list[str]:
    """The columns that were asked for, which must be ours."""
    for each in schema.fields:
        expected = COLUMNS.get(each.name)
        if expected is None:
            raise SettingsError(f"there is no column {each.name!r}; there are {', '.join(COLUMNS)}")
        if each.dataType.simpleString() != expected.simpleString():
            raise SettingsError(
                f"{each.name} is {expected.simpleString()}, not {each.dataType.simpleString()}"
            )
    return [each.name for each in schema.fields]
