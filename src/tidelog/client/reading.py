"""A part of a topic into Arrow: `tidelog.read`, `tidelog.scan`, and one partition for those who plan themselves.

    orders = tidelog.read("orders", since="10m")                       # a pyarrow.Table
    orders.to_pandas(); polars.from_arrow(orders); duckdb.sql("select count(*) from orders")

    for batch in tidelog.scan("orders", columns=["offset", "value"]): # a pyarrow.RecordBatchReader
        ...

`tidelog.aio` has `read` and `scan` for asyncio; there `scan` is an async iterator.  What `since` and `until` may be stands in
`tidelog.client.bounds`.  Both are turned into offsets when the call is made, so a read ends although more is being written.
All leaders are read at once; what is fetched ahead is bounded by prefetch.max.bytes, so a scan of any size needs the
same memory.  No group takes part, and nothing is committed.

For a program that has planned its offsets (a Spark task) there is `PartitionReader`:

    with PartitionReader("orders", 0, start=500, end=9_000, bootstrap="localhost:9092", columns=("key", "value"),
                         unit="us") as reader:
        for batch in reader:
            ...

It yields exactly the records with `start <= offset < end`, in order.  Offsets that are not there any more are an
`OffsetOutOfRange` and not a gap; `end` must not lie beyond the log's end (it would be waited for, and after
default.api.timeout.ms told).  It connects when it is made and reads in a thread of its own, one fetch ahead.
"""

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, Self, TypeVar

from tidelog.client.arrow import USUAL, Bounds, Layout, layout_of, pa, to_table
from tidelog.client.blocking_consumer import Consumer
from tidelog.client.bounds import Bound, plan
from tidelog.client.columnar import ColumnReader
from tidelog.client.consumer import AsyncConsumer
from tidelog.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from tidelog.errors import OffsetOutOfRange, RequestTimedOut, SettingsError
from tidelog.names import TopicPartition

P = ParamSpec("P")
R = TypeVar("R")

BOOTSTRAP = "127.0.0.1:9092"
"""Where a broker is looked for if neither the caller nor TIDELOG_BOOTSTRAP says."""

COLUMNS = tuple(name for name in USUAL if name != "topic")

_AHEAD = {
    "max.partition.fetch.bytes": 2 * 1024 * 1024,
    "fetch.max.bytes": 16 * 1024 * 1024,
    "prefetch.max.bytes": 32 * 1024 * 1024,
}
"""Fewer, larger fetches than a consumer's, because it is known that there is much to come."""

_ALONE = {"group.id": "", "enable.auto.commit": False, "auto.offset.reset": "none"}


class Question:
    """What is to be read, and from where.

    `limit` is how many rows at most; of several partitions any may come first.  `columns` are some of topic, partition,
    offset, timestamp, timestamp_type, key, value and headers; the fewer, the faster.  `isolation="read_committed"` leaves out
    what was aborted, and ends before open transactions.  `config` and keywords are a consumer's settings.
    """

    def __init__(
        self,
        topic: str,
        *,
        since: Bound = None,
        until: Bound = None,
        partitions: Iterable[int] | int | None = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        bootstrap: str | None = None,
        isolation: str | None = None,
        config: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if limit is not None and limit < 0:
            raise SettingsError(f"limit={limit} must be 0 or more")
        self.topic = topic
        self.since, self.until = since, until
        self.partitions = partitions
        self.limit = limit
        self.layout = layout_of(columns, COLUMNS)
        self.settings = _settings(config, bootstrap, isolation, options)

    async def plan(self, core: AsyncConsumer) -> dict[TopicPartition, Bounds]:
        """The bounds of each partition, as of now."""
        committed = core.settings.isolation_level == "read_committed"
        return await plan(
            core.cluster,
            self.topic,
            since=self.since,
            until=self.until,
            partitions=self.partitions,
            isolation=READ_COMMITTED if committed else READ_UNCOMMITTED,
        )


_PARAMETERS = inspect.cleandoc(Question.__doc__ or "").partition("\n\n")[2]


def _answers(ask: Callable[P, Question]) -> Callable[[Callable[[Question], R]], Callable[P, R]]:
    """Gives a function the parameters of `Question`, so that they stand once."""

    def decorate(answer: Callable[[Question], R]) -> Callable[P, R]:
        @wraps(answer)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return answer(ask(*args, **kwargs))

        parameters = inspect.signature(ask).parameters.values()
        result = inspect.signature(answer).return_annotation
        call.__signature__ = inspect.Signature(list(parameters), return_annotation=result)  # type: ignore[attr-defined]
        call.__doc__ = f"{answer.__doc__}\n\n{_PARAMETERS}"
        return call

    return decorate


@_answers(Question)
def read(question: Question) -> pa.Table:
    """All records of a topic between `since` and `until` as one table, by partition and offset."""
    found = _Found()
    for tp, batch in _start(question):
        found.add(tp, batch)
    return found.table(question.layout)


@_answers(Question)
def scan(question: Question) -> pa.RecordBatchReader:
    """As `read`, batch by batch in bounded memory; in order within a partition, the partitions mixed."""
    batches = (batch for _, batch in _start(question))
    return pa.RecordBatchReader.from_batches(question.layout.schema, batches)


@_answers(Question)
async def read_async(question: Question) -> pa.Table:
    """All records of a topic between `since` and `until` as one table, by partition and offset."""
    found = _Found()
    async for tp, batch in _scan_async(question):
        found.add(tp, batch)
    return found.table(question.layout)


@_answers(Question)
async def scan_async(question: Question) -> AsyncIterator[pa.RecordBatch]:
    """As `read`, batch by batch in bounded memory; in order within a partition, the partitions mixed."""
    async for _, batch in _scan_async(question):
        yield batch


class PartitionReader:
    """The records of one partition from `start` to before `end`, batch by batch; see the head of this module."""

    def __init__(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        columns: Sequence[str] = USUAL,
        unit: str = "ms",
        bootstrap: str | None = None,
        isolation: str | None = None,
        config: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if not 0 <= start <= end:
            raise SettingsError(
                f"start={start} and end={end} must be offsets, the first not after the second"
            )
        self._layout = Layout(tuple(columns), unit)
        self.schema = self._layout.schema
        bounds = {TopicPartition(topic, partition): Bounds(start, end)} if start < end else {}
        self._consumer = Consumer(_settings(config, bootstrap, isolation, options))
        try:
            self._batches = _read_all(self._consumer, self._layout, bounds, None)
        except BaseException:
            self._consumer.close()
            raise

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return (batch for _, batch in self._batches)

    def close(self) -> None:
        """Let go of the broker; calling it again does nothing."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Found:
    """The batches of a read, put in order."""

    def __init__(self) -> None:
        self._batches: dict[TopicPartition, list[pa.RecordBatch]] = {}

    def add(self, tp: TopicPartition, batch: pa.RecordBatch) -> None:
        self._batches.setdefault(tp, []).append(batch)

    def table(self, layout: Layout) -> pa.Table:
        ordered = [batch for tp in sorted(self._batches) for batch in self._batches[tp]]
        return to_table(ordered, layout)


class _Progress:
    """What is left to read: the rows of the limit, and the partitions that have not come to their end."""

    def __init__(self, bounds: Mapping[TopicPartition, Bounds], limit: int | None) -> None:
        self.left = limit
        self.bounds = dict(bounds)

    def ended(self) -> bool:
        return not self.bounds or self.left == 0

    def cut(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, or as much of it as there may be."""
        if self.left is None:
            return batch
        some = batch.slice(0, self.left)
        self.left -= some.num_rows
        return some

    def came_to(self, tp: TopicPartition, position: int) -> bool:
        """Whether the partition is through."""
        if tp not in self.bounds or position < self.bounds[tp].stop:
            return False
        del self.bounds[tp]
        return True

    def stuck(self, timeout_s: float) -> RequestTimedOut:
        missing = ", ".join(f"{tp} up to {each.stop}" for tp, each in self.bounds.items())
        return RequestTimedOut(
            f"nothing came for default.api.timeout.ms={timeout_s * 1000:g} although there should be more: {missing}; "
            "is a broker down, or was the end of a log lost?"
        )


def _start(question: Question) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """Plan now, so that what is wrong with the question is told at once; read when the iterator is used."""
    consumer = Consumer(question.settings)
    try:
        bounds = consumer.run(question.plan)
        return _read_all(consumer, question.layout, bounds, question.limit)
    except BaseException:
        consumer.close()
        raise


def _read_all(
    consumer: Consumer,
    layout: Layout,
    bounds: Mapping[TopicPartition, Bounds],
    limit: int | None,
) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    consumer.run(lambda core: _place(core, bounds))

    def batches() -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        with consumer:
            core = consumer.core
            reader = ColumnReader(core.assignment, layout, bounds)
            progress = _Progress(bounds, limit)
            timeout_s = core.settings.default_timeout_s
            while not progress.ended():
                try:
                    state = consumer.wait(reader, timeout_s)
                except OffsetOutOfRange as error:
                    raise _gone(error) from None
                if state is None:
                    raise progress.stuck(timeout_s)
                for batch in reader.take_chunk(state):
                    yield state.partition, progress.cut(batch)
                    if progress.ended():
                        return
                if progress.came_to(state.partition, state.position):
                    core.assignment.replace(list(progress.bounds))

    return batches()


async def _scan_async(
    question: Question,
) -> AsyncIterator[tuple[TopicPartition, pa.RecordBatch]]:
    async with AsyncConsumer(question.settings) as core:
        bounds = await question.plan(core)
        await _place(core, bounds)
        reader = ColumnReader(core.assignment, question.layout, bounds)
        progress = _Progress(bounds, question.limit)
        timeout_s = core.settings.default_timeout_s
        while not progress.ended():
            try:
                state = await core.look(reader.next_state, timeout_s)
            except OffsetOutOfRange as error:
                raise _gone(error) from None
            if state is None:
                raise progress.stuck(timeout_s)
            # Unfolding takes its time, and the loop has other things to do.
            for batch in await asyncio.to_thread(list, reader.take_chunk(state)):
                yield state.partition, progress.cut(batch)
                if progress.ended():
                    return
            if progress.came_to(state.partition, state.position):
                core.assignment.replace(list(progress.bounds))


async def _place(core: AsyncConsumer, bounds: Mapping[TopicPartition, Bounds]) -> None:
    """Go to where each partition begins, and fetch no further than where it ends."""
    await core.assign(bounds)
    for tp, each in bounds.items():
        core.assignment.seek(tp, offset=each.first)
        core.assignment.state(tp).fetch_stop = each.stop


def _gone(error: OffsetOutOfRange) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        f"records were deleted, by retention or by hand, before they could be read: {error}"
    )


def _settings(
    config: Mapping[str, Any] | None,
    bootstrap: str | None,
    isolation: str | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    given = {**_AHEAD, **(config or {})}
    given |= {name.replace("_", "."): value for name, value in options.items()}
    if bootstrap is not None:
        given["bootstrap.servers"] = bootstrap
    given.setdefault("bootstrap.servers", os.environ.get("TIDELOG_BOOTSTRAP") or BOOTSTRAP)
    if isolation is not None:
        given["isolation.level"] = isolation
    return given | _ALONE
