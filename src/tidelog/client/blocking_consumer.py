"""The consumer for threads: iteration, `poll` and `streams` over an `AsyncConsumer` in the background."""

import inspect
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from tidelog.client.assignment import PartitionState
from tidelog.client.background import Blocking, blocking
from tidelog.client.closing import CLOSE_TIMEOUT_S
from tidelog.client.committing import Offsets, OnCommit
from tidelog.client.consumer import AsyncConsumer, Names
from tidelog.client.decoding import Deserializer
from tidelog.client.deserializing import Away, Interceptor, OnBad
from tidelog.client.habits import answering
from tidelog.client.keywords import Keywords
from tidelog.client.message import BadMessage, Message
from tidelog.client.options import ConsumerOptions
from tidelog.client.reader import Reader
from tidelog.client.settings import ConsumerSettings
from tidelog.client.streams import Stream, share_of
from tidelog.errors import SettingsError

if TYPE_CHECKING:
    import pyarrow as pa


@answering
class Consumer(Blocking[AsyncConsumer]):
    """A consumer for threads.  One thread reads; others may seek, pause, commit and close.

        with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
            for message in consumer:
                print(message.partition, message.offset, message.value)

    Options that matter; `help(tidelog.client.options.ConsumerOptions)` lists all of them:

    bootstrap_servers   addresses of some brokers: "host:port", or a list of them
    group_id            the group that shares the partitions; without one all are read
    topics              what to read; `subscribe` and `assign` say more
    auto_offset_reset   where to begin without a committed offset: earliest, latest (the default), none
    enable_auto_commit  whether what is done is committed by itself (True)
    isolation_level     read_committed hides what is open or aborted
    key_deserializer, value_deserializer   functions from bytes
    on_bad              what to do with a message that they cannot read: raise, skip, or a function
    """

    __signature__ = Keywords(ConsumerSettings)

    def __init__(
        self,
        config: Mapping[str, Any] | str | Iterable[str] | None = None,
        *more_topics: str,
        topics: Names = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        on_bad: OnBad = "raise",
        interceptors: Sequence[Interceptor] = (),
        on_commit: OnCommit | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        def make() -> AsyncConsumer:
            return AsyncConsumer(
                config,
                *more_topics,
                topics=topics,
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                on_bad=on_bad,
                interceptors=interceptors,
                on_commit=on_commit,
                **options,
            )

        super().__init__(make, "tidelog-consumer")
        self._assignment = self._core.assignment
        self._assignment.announce = self._assignment.notify_threads
        self._reader = self._core.reader

    subscribe = blocking(AsyncConsumer.subscribe)
    unsubscribe = blocking(AsyncConsumer.unsubscribe)
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

    def commit_async(self, offsets: Offsets | None = None) -> "Future[None]":
        """As `commit` without waiting: the future tells how it went, and a failure is logged; commits do not overtake one another."""
        core = self._core
        given = self._assignment.commitable() if offsets is None else offsets

        async def begin() -> None:
            await core.committer.commit_soon(given)

        return self._thread.start(begin())

    def poll(
        self,
        timeout: float = 0.0,
        max_records: int | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> list[Message]:
        """Up to `max_records` messages; waits at most `timeout` seconds for the first.

        They are done with the next call, or when the `with` block ends without an exception.
        """
        self._core.check_open()
        wanted = self._core.at_most(max_records)
        until = time.monotonic() + (timeout if timeout_ms is None else timeout_ms / 1000)
        while True:
            state = self.wait(self._reader, until - time.monotonic())
            if state is None:
                return []
            try:
                if found := self._reader.take(wanted):
                    return found
            except Away:
                continue  # `wait` knows for how long
            except BadMessage as error:
                self._judge(self._reader, error)

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
        self._reader.owner = threading.current_thread()
        while self.wait(reader, until - time.monotonic()) is not None:
            if table := reader.take_table(max_records or ROWS, most):
                self._reader.one_by_one = False
                return table
        return reader.take_table(0, 0)

    def arrow_batches(self, columns: Sequence[str] | None = None) -> "Iterator[pa.RecordBatch]":
        """Everything as Arrow's record batches, without end, as iteration gives messages."""
        from tidelog.client.columnar import ROWS, ColumnReader

        reader = ColumnReader.beside(self._reader, columns)
        while (state := self.wait(reader, None)) is not None:
            self._reader.owner = threading.current_thread()
            self._reader.one_by_one = True
            yield from reader.take_rows(state, ROWS)

    def __iter__(self) -> Iterator[Message]:
        return self.iterate(self._reader)

    def streams(self, topic: str, count: int = 1) -> list[Stream]:
        """Subscribe to the topic and return `count` streams, each for a thread of its own.

        The partitions are dealt out evenly; a message is in one stream only.
        """
        self.subscribe(topic)
        shares = [share_of(self._assignment, place, count) for place in range(count)]
        readers = [Reader(self._assignment, self._core.decoder.decode, mine) for mine in shares]
        return [Stream(partial(self.iterate, reader)) for reader in readers]

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
            reader.one_by_one = True
            for message in messages:
                # It is done when the next one is asked for, so all before it are.
                state.settled = offset = message.offset
                state.position = offset + 1
                yield message
                if assignment.version != version:
                    break
            else:
                if state.messages is messages:
                    state.used_up()

    def wait(self, reader: Reader, timeout_s: float | None) -> PartitionState | None:
        """Block until a partition has messages for this reader; None when the time is over or the consumer closed."""
        self._thread.check_process()
        reader.owner = threading.current_thread()
        reader.settle()
        core, assignment = self._core, self._assignment
        patience_s = core.settings.default_timeout_s if timeout_s is None else timeout_s
        until = time.monotonic() + patience_s
        while not assignment.closed:
            seen = assignment.signals
            core.polled()
            self._answer_calls()
            assignment.check()
            pause_s, away = core.wake_s, None
            try:
                if (state := reader.next_state()) is not None:
                    return state
            except Away as error:
                away, pause_s = error, core.settings.retry_backoff_ms / 1000
            except BadMessage as error:
                self._judge(reader, error)
                continue
            left = until - time.monotonic()
            if left <= 0:
                if away is not None:
                    raise away.cause
                assignment.complain()
                if timeout_s is not None:
                    return None
                until = time.monotonic() + patience_s
                continue
            with assignment.ready:
                if assignment.signals == seen:
                    assignment.ready.wait(min(left, pause_s))
        return None

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Commit if that is done by itself, leave the group, let go of the brokers; all within about `timeout` seconds.

        A message in hand is not done; a polled batch is, unless an exception is under way.  Calling it again does nothing.
        """
        if not self._core.closed:
            here = threading.current_thread()
            self._core.end_reading(here, failed=sys.exception() is not None)
        super().close(timeout)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        here = threading.current_thread()
        self._core.end_reading(here, failed=kind is not None, block=True)
        super().__exit__(kind, error, traceback)

    def _judge(self, reader: Reader, error: BadMessage) -> None:
        """A message cannot be read: raise it, or ask what becomes of it."""
        decoder = self._core.decoder
        if decoder.raises:
            reader.pass_by(error, None)
            raise error
        verdict = decoder.judge(error)
        if inspect.isawaitable(verdict):
            raise SettingsError(
                "on_bad is asynchronous; a blocking consumer wants a plain function"
            )
        reader.pass_by(error, verdict)
        reader.settle()

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
