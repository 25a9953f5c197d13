"""The stream: which offsets make the next micro-batch, and what is remembered of them.

Spark keeps `{topic: {partition: offset}}` of each batch in the query's checkpoint, with the ids of the topics; a query that starts again goes on
from there.  A topic with another id was created again: the offsets say nothing of it, and what it had is lost.

Two traps of Spark's Python sources are dealt with here:

- Where a stream began is not kept before its first batch is done, and "latest" is another place after a crash.  With
  `initialOffsetsLocation`, a file that is written once (`tidelog.spark.stream_options` puts it into the checkpoint), it is.
- `commit` comes for a batch when there is something for the next one, so the last batch of an `availableNow` query, or one before a pause, is never
  committed.  But Spark asks what is new after each batch, and says where it would begin: where that batch has ended.  So that is what the group of `groupId` is told.

Absent: an `initialOffsetsLocation` in an object store.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tidelog.errors import KafkaError, SettingsError
from tidelog.spark.cluster import Brokers
from tidelog.spark.failures import plainly
from tidelog.spark.lakes import local_path
from tidelog.spark.options import LATEST, SourceOptions
from tidelog.spark.planning import (
    Offsets,
    created_again,
    from_json,
    ids_in,
    limited,
    lost_data,
    ranges,
    split,
    to_json,
    without_lost,
)
from tidelog.spark.source import RangePartition
from tidelog.spark.task import ReadRange, warn


class TidelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's reader; it lives on the driver as long as the query, and travels to the tasks to read."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._read = ReadRange(options, tuple(columns))
        self._until: Offsets | None = None
        """Where an `availableNow` query ends."""
        self._last_batch_at = time.monotonic()
        self._told: Offsets = {}
        """What the group of `groupId` was told last."""

    @plainly
    def initialOffset(self) -> dict[str, Any]:
        brokers = Brokers(self._options)
        location = self._options.initial_location
        if location and (known := _remembered(location)):
            return known
        partitions = brokers.partitions()
        ids = brokers.topic_ids(tp.topic for tp in partitions)
        found = to_json(brokers.resolve(self._options.starting, partitions, "starting"), ids)
        if location:
            return _remember(location, found)
        if self._options.starting.everywhere == LATEST:
            warn(
                "startingOffsets=latest without initialOffsetsLocation: if the query dies in its first batch, "
                "it will begin at a later place"
            )
        return found

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        brokers = Brokers(self._options)
        self._until = brokers.latest(brokers.partitions())

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets
        return ReadMaxRows(most) if most else ReadAllAvailable()

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        brokers = Brokers(self._options)
        begin = from_json(start)
        self._tell_group(brokers, begin)
        if self._until is not None:
            end = dict(self._until)
        else:
            end = brokers.latest(brokers.partitions())
        ids = brokers.topic_ids(tp.topic for tp in end)
        again = created_again(ids_in(start), ids)
        self._tell([*again.values()])
        begin = {tp: 0 if tp.topic in again else each for tp, each in begin.items()}
        self._check_deleted(begin, end)
        # A partition that has come since begins at its beginning; were records lost there, `partitions` tells.
        for tp in end:
            begin.setdefault(tp, 0)
        # A log that is shorter than it was is a loss, and not a step back.
        end = {tp: max(each, begin[tp]) for tp, each in end.items()}
        if not self._enough(begin, end):
            return start
        if isinstance(limit, ReadMaxRows):
            end = limited(begin, end, limit.max_rows)
        self._last_batch_at = time.monotonic()
        return to_json(end, ids)

    @plainly
    def reportLatestOffset(self) -> dict[str, Any] | None:
        brokers = Brokers(self._options)
        return to_json(brokers.latest(brokers.partitions()))

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        options = self._options
        brokers = Brokers(options)
        begin, stop = from_json(start), from_json(end)
        known = ids_in(end)
        before = created_again(ids_in(start), known)
        begin = {tp: 0 if tp.topic in before else each for tp, each in begin.items()}
        again = created_again(known, brokers.topic_ids(known))
        self._tell([*again.values()])
        stop = {tp: each for tp, each in stop.items() if tp.topic not in again}
        there = brokers.existing(sorted(stop))
        begin, stop, lost = without_lost(
            begin, stop, brokers.earliest(there), brokers.latest(there)
        )
        self._tell(lost)
        cut = split(ranges(begin, stop), options.min_partitions, options.max_records_per_partition)
        return [RangePartition(each) for each in cut]

    @plainly
    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Where there is nothing to read Spark makes a task all the same, for nothing.
        if partition.value is not None:
            yield from self._read(partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: it comes too late, see above."""

    def stop(self) -> None:
        """Nothing: connections end with the process."""

    def _tell_group(self, brokers: Brokers, done: Offsets) -> None:
        """All before these offsets has been committed; that the group is told late must not fail the query."""
        if not self._options.group_id or done == self._told:
            return
        try:
            brokers.publish(self._options.group_id, done)
            self._told = done
        except (KafkaError, OSError) as error:
            warn(f"group {self._options.group_id!r} was not told how far the query is: {error}")

    def _enough(self, begin: Offsets, end: Offsets) -> bool:
        """Whether there is enough for a batch, or it has been waited for long enough."""
        fewest = self._options.min_offsets
        if not fewest or self._until is not None:
            return True
        there = sum(end[tp] - begin[tp] for tp in end)
        waited_ms = (time.monotonic() - self._last_batch_at) * 1000
        return there >= fewest or waited_ms >= self._options.max_delay_ms

    def _check_deleted(self, begin: Offsets, end: Offsets) -> None:
        self._tell([f"{tp} was deleted" for tp in begin if tp not in end])

    def _tell(self, lost: list[str]) -> None:
        if not lost:
            return
        if self._options.fail_on_data_loss:
            raise lost_data(lost)
        warn(f"data was lost: {'; '.join(lost)}")


def _remembered(location: str) -> dict[str, Any] | None:
    try:
        found = json.loads(_path(location).read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        raise SettingsError(f"initialOffsetsLocation {location} holds no offsets") from None
    assert isinstance(found, dict)
    return found


def _remember(location: str, offsets: dict[str, Any]) -> dict[str, Any]:
    """Write the file whole and only once; whoever comes second takes what is there."""
    path = _path(location)
    path.parent.mkdir(parents=True, exist_ok=True)
    mine = path.with_name(f".{path.name}.{os.getpid()}")
    with open(mine, "w") as file:
        file.write(json.dumps(offsets))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(mine, path)
    except FileExistsError:
        return _remembered(location) or offsets
    finally:
        mine.unlink()
    return offsets


def _path(location: str) -> Path:
    return Path(local_path(location))
