"""The consumer for threads: iteration, `poll` and `streams` over an `AsyncConsumer` in the background."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.client.assignment import PartitionState
from tidelog.client.background import Blocking, blocking
from tidelog.client.consumer import AsyncConsumer, Names
from tidelog.client.decoding import Deserializer
from tidelog.client.message import Message
from tidelog.client.reader import Reader
from tidelog.client.streams import Stream, share_of

if TYPE_CHECKING:
    import pyarrow as pa

_WAKE_S = 1.0
"""A waiting reader looks up this often, so that it counts as alive (max.poll.interval.ms)."""


class Consumer(Blocking[AsyncConsumer]):
    """A consumer for threads.  One thread reads; others may seek, pause, commit and close."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        topics: Names = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **options: Any,
    ) -> None:
        def make() -> AsyncConsumer:
            return AsyncConsumer(
                config,
                topics=topics,
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                **options,
            )

        super().__init__(make, "tidelog-consumer")
        self._assignment = self._core.assignment
        self._assignment.announce = self._assignment.notify_threads
        self._reader = self._core.reader

    subscribe = blocking(AsyncConsumer.subscribe)
    assign = blocking(AsyncConsumer.assign)
    assigned = blocking(AsyncConsumer.assigned)
    seek = blocking(AsyncConsumer.seek)
    seek_to_beginning = blocking(AsyncConsumer.seek_to_beginning)
    seek_to_end = blocking(AsyncConsumer.seek_to_end)
    seek_to_time = blocking(AsyncConsumer.seek_to_time)
    seek_to_committed = blocking(AsyncConsumer.seek_to_committed)
    positions = blocking(AsyncConsumer.positions)
    position = blocking(AsyncConsumer.position)
    pause = blocking(AsyncConsumer.pause)
    resume = blocking(AsyncConsumer.resume)
    lag = blocking(AsyncConsumer.lag)
    find_offsets = blocking(AsyncConsumer.find_offsets)
    group_metadata = blocking(AsyncConsumer.group_metadata)
    commit = blocking(AsyncConsumer.commit)
    committed = blocking(AsyncConsumer.committed)

    def metrics(self) -> dict[str, float]:
        """What the consumer has measured of itself, under the names of Kafka's manual."""
        return self._core.metrics()

    def poll(self, max_records: int | None = None, timeout: float = 0.0) -> list[Message]:
        """Up to `max_records` messages; waits at most `timeout` seconds for the first."""
        wanted = max_records or self._core.settings.max_poll_records
        until = time.monotonic() + timeout
        while True:
            state = self.wait(self._reader, until - time.monotonic())
            if state is None:
                return []
            if found := self._reader.take(wanted):
                return found

    def read_arrow(
        self,
        max_records: int | None = None,
        timeout: float = 0.0,
        columns: Sequence[str] | None = None,
    ) -> "pa.Table":
        """What there is as one table of up to `max_records` rows; waits at most `timeout` seconds for the first.

        It may be fewer although more are there: a table has about `prefetch.max.bytes` at most.  Keys and values are bytes, whatever the deserializers.  It may be mixed with `poll` and with iteration.
        """
        from tidelog.client.columnar import ROWS, ColumnReader

        reader = ColumnReader.beside(self._reader, columns)
        most = self._core.settings.prefetch_max_bytes
        until = time.monotonic() + timeout
        while self.wait(reader, until - time.monotonic()) is not None:
            if table := reader.take_table(max_records or ROWS, most):
                return table
        return reader.take_table(0, 0)

    def arrow_batches(self, columns: Sequence[str] | None = None) -> "Iterator[pa.RecordBatch]":
        """Everything as Arrow's record batches, without end, as iteration gives messages."""
        from tidelog.client.columnar import ROWS, ColumnReader

        reader = ColumnReader.beside(self._reader, columns)
        while (state := self.wait(reader, None)) is not None:
            yield from reader.take_rows(state, ROWS)

    def __iter__(self) -> Iterator[Message]:
        return self.iterate(self._reader)

    def streams(self, topic: str, count: int = 1) -> list[Stream]:
        """Subscribe to the topic and return `count` streams, each for a thread of its own.

        The partitions are dealt out evenly; a message is in one stream only.
        """
        self.subscribe(topic)
        shares = [share_of(self._assignment, place, count) for place in range(count)]
        readers = [Reader(self._assignment, self._core.decode, mine) for mine in shares]
        return [Stream(self.iterate(reader)) for reader in readers]

    def iterate(self, reader: Reader) -> Iterator[Message]:
        """Messages without end; it ends only when the consumer is closed."""
        assignment = self._assignment
        while not assignment.closed:
            state = self.wait(reader, None)
            if state is None:
                return
            version = assignment.version
            messages = state.messages
            if messages is None:
                continue
            for message in messages:
                state.position = message.offset + 1
                yield message
                if assignment.version != version:
                    break
            else:
                if state.messages is messages:
                    state.used_up()

    def wait(self, reader: Reader, timeout_s: float | None) -> PartitionState | None:
        """Block until a partition has messages for this reader; None when the time is over or the consumer closed."""
        self._thread.check_process()
        reader.settle()
        assignment = self._assignment
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not assignment.closed:
            seen = assignment.signals
            self._core.polled()
            self._answer_calls()
            assignment.check()
            if (state := reader.next_state()) is not None:
                return state
            with assignment.ready:
                left = _WAKE_S if until is None else min(_WAKE_S, until - time.monotonic())
                if left <= 0:
                    return None
                if assignment.signals == seen:
                    assignment.ready.wait(left)
        return None

    def _answer_calls(self) -> None:
        calls = self._assignment.calls
        while calls:
            try:
                call = calls.popleft()
            except IndexError:
                return  # another stream's thread was faster
            try:
                call.action()
            finally:
                call.done()
