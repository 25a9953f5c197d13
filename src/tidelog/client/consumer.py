"""The consumer.

    with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        consumer.subscribe("orders")
        for message in consumer:
            ...

Iteration never ends: it waits when there is nothing.  `poll` returns what there is, `streams` gives several iterators
for several threads.  Messages are fetched ahead in the background and decoded where they are read.
`AsyncConsumer` (as `tidelog.aio.Consumer`) is the same on the caller's own loop.

What is committed without being asked for is what the reader has come back from: a message counts as done when the
next one is asked for, a polled batch with the next poll, and both when a `with` block ends without an exception
(`reader.py` has the rule).  `commit()` commits everything that was handed out, the message in hand included.
"""

import asyncio
import inspect
import logging
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from tidelog.client.assignment import COMMITTED, Assignment
from tidelog.client.classic_membership import ClassicMembership
from tidelog.client.closing import CLOSE_TIMEOUT_S, Closing
from tidelog.client.cluster import Cluster
from tidelog.client.committing import Committer, Offsets, OnCommit
from tidelog.client.consumer_membership import ConsumerMembership
from tidelog.client.decoding import Chunk, Deserializer
from tidelog.client.deserializing import Away, Decoder, Interceptor, OnBad
from tidelog.client.fetcher import Fetcher
from tidelog.client.group_requests import CommittedOffset, GroupMetadata, committed_offsets
from tidelog.client.habits import answering, topics_first
from tidelog.client.iteration import Messages
from tidelog.client.keywords import Keywords
from tidelog.client.membership import Listener, Membership
from tidelog.client.message import BadMessage, Message
from tidelog.client.metrics import ConsumerMetrics
from tidelog.client.offsets import EARLIEST, LATEST, FoundOffset, find_offsets
from tidelog.client.options import ConsumerOptions
from tidelog.client.reader import Reader
from tidelog.client.settings import ConsumerSettings, load, names_given
from tidelog.client.subscription import Wish
from tidelog.errors import KafkaError, LeaderNotAvailable, SettingsError, TidelogError
from tidelog.names import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

T = TypeVar("T")

Names = str | Iterable[str] | None

_TOPICS = "topics"
"""What may be wrong for long, beside the group and single partitions."""


@answering
class AsyncConsumer(Closing):
    """A consumer on the running loop; one task reads, others may seek, pause, commit and close.

        async with aio.Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
            async for message in consumer:
                print(message.partition, message.offset, message.value)

    The options that matter are those of `tidelog.Consumer`.
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
        config, topics = topics_first(config, more_topics, topics)
        self.settings = load(ConsumerSettings, config, options)
        _check(self.settings, names_given(config, options))
        self._metrics = ConsumerMetrics()
        self.cluster = self._make_cluster(self._metrics)
        self._fetcher = self._make_fetcher(self._metrics)
        self.assignment: Assignment = self._fetcher.assignment
        self._metrics.gauge("assigned-partitions", lambda: len(self.assignment.states))
        self._metrics.gauge(
            "records-lag-max", lambda: max(self.assignment.lag().values(), default=0)
        )
        self.committer = Committer(
            self.cluster, self.settings, self.assignment, self._metrics, on_commit=on_commit
        )
        self._fetcher.placed_at_end = self.committer.commit_settled_now
        self.decoder = Decoder(
            self.assignment,
            key_deserializer,
            value_deserializer,
            on_bad=on_bad,
            interceptors=interceptors,
            counted=self.count_consumed,
        )
        self.membership: Membership | None = None
        self.wish: Wish | None = None
        self._following: asyncio.Task[None] | None = None
        self._answering: asyncio.Future[None] | None = None
        """A listener that the reader waits for; it goes on if the reader is cancelled."""
        self._ready = asyncio.Event()
        self.assignment.announce = self._ready.set
        self.reader = Reader(self.assignment, self.decoder.decode)
        self.wake_s = min(1.0, self.settings.max_poll_interval_ms / 3000)
        """A waiting reader looks up this often, so that it counts as alive."""
        if topics is not None:
            self._subscribe(Wish.of(topics, None, ()))

    # What to read.

    async def subscribe(
        self,
        topics: Names = None,
        *,
        pattern: "str | re.Pattern[str] | None" = None,
        deny: "Iterable[str | re.Pattern[str]]" = (),
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Read these topics, or those whose whole names match a pattern and none of `deny`.

        With a group the partitions are shared with its other members, without one all are read.  The listeners are
        called by whoever reads, when it asks for messages.
        """
        self._subscribe(Wish.of(topics, pattern, deny), on_assigned, on_revoked, on_lost)

    async def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read exactly these partitions, without a group's help."""
        if self.wish is not None:
            raise TidelogError("the consumer is subscribed; use a consumer for one of both")
        wanted = [TopicPartition(*each) for each in partitions]
        for topic in {tp.topic for tp in wanted}:
            await self.cluster.topic(topic)
        for tp in wanted:
            with suppress(LeaderNotAvailable):  # it is read once it has one
                await self.cluster.leader(*tp)
        self.assignment.replace(wanted)
        self.committer.start()

    async def unsubscribe(self) -> None:
        """Read nothing more: what is done is committed if that is done by itself, and the group is left."""
        self.wish = None
        await _cancelled(self._following)
        self._following = None
        await self.committer.commit_settled()
        if self.membership is not None:
            member, self.membership = self.membership, None
            await member.close()
            self.committer.membership = None
        self.assignment.replace([])

    async def assigned(self) -> set[TopicPartition]:
        """What is read at the moment."""
        return set(self.assignment.states)

    # Where.

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on at this offset."""
        if offset < 0:
            raise ValueError(f"there is no offset {offset}; use seek_to_beginning or seek_to_end")
        self.assignment.seek(TopicPartition(topic, partition), offset=offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first record that there is; of all partitions unless some are named."""
        await self.seek_to_time(EARLIEST, *partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on at what will be written next."""
        await self.seek_to_time(LATEST, *partitions)

    async def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Go on at the first record of this time or later; at the end if there is none."""
        for tp in partitions or list(self.assignment.states):
            self.assignment.seek(TopicPartition(*tp), time=timestamp_ms)

    async def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Go on where the group has committed: read again what an aborted transaction had taken."""
        await self.seek_to_time(COMMITTED, *partitions)

    async def positions(self) -> dict[TopicPartition, int]:
        """The offset after the last message that was handed out, of each partition; what `commit()` would commit."""
        return self.assignment.positions()

    async def position(self, topic: str, partition: int) -> int:
        """The offset of the next message of this partition; waits until it is known."""
        state = self.assignment.state(TopicPartition(topic, partition))
        while state.position < 0:
            self.assignment.check()
            await asyncio.sleep(0.005)
        return state.position

    async def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these partitions until they are resumed."""
        self.assignment.pause([TopicPartition(*tp) for tp in partitions], True)

    async def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these partitions."""
        self.assignment.pause([TopicPartition(*tp) for tp in partitions], False)

    async def lag(self) -> dict[TopicPartition, int]:
        """How many offsets are left to read, as of the last fetch."""
        return dict(self.assignment.lag())

    async def find_offsets(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset]:
        """The first offset at or after a time in ms; -1 is the end that this consumer can read to, -2 the beginning."""
        isolation = int(self.settings.isolation_level == "read_committed")
        return await find_offsets(self.cluster, times, isolation)

    # How far.

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, or everything that was handed out."""
        await self.committer.commit(self.assignment.commitable() if offsets is None else offsets)

    def commit_async(self, offsets: Offsets | None = None) -> "asyncio.Task[None]":
        """The same without waiting: the task tells how it went, and a failure is logged; commits do not overtake one another."""
        given = self.assignment.commitable() if offsets is None else offsets
        return self.committer.commit_soon(given)

    async def group_metadata(self) -> GroupMetadata:
        """Who this consumer is to its group, for `Producer.send_offsets`; tells a member that was replaced from its successor."""
        if self.membership is None:
            return GroupMetadata(self.committer.group)
        return self.membership.metadata

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, CommittedOffset]:
        """What the group has committed for these partitions, or for all that are assigned."""
        wanted = [TopicPartition(*tp) for tp in partitions] or list(self.assignment.states)

        async def ask() -> dict[TopicPartition, CommittedOffset]:
            stable = self.settings.isolation_level == "read_committed"
            return await committed_offsets(
                self.cluster, self.committer.group, wanted, require_stable=stable
            )

        return await self.committer.at_group(ask)

    def metrics(self) -> dict[str, float]:
        """What the consumer has measured of itself, under the names of Kafka's manual."""
        return self._metrics.read()

    # Messages.

    async def poll(
        self,
        timeout: float = 0.0,
        max_records: int | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> list[Message]:
        """Up to `max_records` messages; waits at most `timeout` seconds for the first.

        They are done with the next call, or when the `with` block ends without an exception.
        """
        self.check_open()
        wanted = self.at_most(max_records)
        patience = timeout if timeout_ms is None else timeout_ms / 1000
        return await self.look(lambda: self.reader.take(wanted), patience)

    async def getone(self, *partitions: TopicPartition) -> Message:
        """The next message, of these partitions if some are named; done when the next is asked for."""
        mine = _among(partitions)
        while (found := await self.look(lambda: self.reader.take_one(mine), None)) is None:
            self.check_open()
        return found

    async def getmany(
        self,
        *partitions: TopicPartition,
        timeout: float = 0.0,
        timeout_ms: int | None = None,
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[Message]]:
        """As `poll`, by partition, and of these if some are named."""
        self.check_open()
        wanted, mine = self.at_most(max_records), _among(partitions)
        patience = timeout if timeout_ms is None else timeout_ms / 1000
        found: dict[TopicPartition, list[Message]] = {}
        for message in await self.look(lambda: self.reader.take(wanted, mine), patience):
            found.setdefault(message.topic_partition, []).append(message)
        return found

    async def read_arrow(
        self,
        max_records: int | None = None,
        timeout: float = 0.0,
        columns: Sequence[str] | None = None,
    ) -> "pa.Table":
        """What there is as one table of up to `max_records` rows; waits at most `timeout` seconds for the first.

        It may be fewer although more are there: a table has about `prefetch.max.bytes` at most.  Keys and values are bytes, whatever the deserializers.  It may be mixed with `poll` and with iteration.
        """
        from tidelog.client.columnar import ROWS, ColumnReader

        reader = ColumnReader.beside(self.reader, columns)
        most = self.settings.prefetch_max_bytes
        table = await self.look(lambda: reader.take_table(max_records or ROWS, most), timeout)
        self.reader.one_by_one = False
        return table

    async def arrow_batches(
        self, columns: Sequence[str] | None = None
    ) -> "AsyncIterator[pa.RecordBatch]":
        """Everything as Arrow's record batches, without end, as iteration gives messages."""
        from tidelog.client.columnar import ROWS, ColumnReader

        reader = ColumnReader.beside(self.reader, columns)
        while not self.closed:
            if (state := await self.look(reader.next_state, None)) is not None:
                self.reader.one_by_one = True
                for batch in reader.take_rows(state, ROWS):
                    yield batch

    async def next_chunk(self, timeout: float = 0.0) -> tuple[Chunk, int] | None:
        """What one fetch brought for one partition, as it came, and the offset after it; waits at most `timeout` seconds.

        For whoever passes batches on or counts them without decoding.  It must not be mixed with `poll`.
        """
        return await self.look(self._take_chunk, timeout)

    def __aiter__(self) -> AsyncIterator[Message]:
        return Messages(
            self.assignment, self.reader, lambda: self.look(self.reader.next_state, None)
        )

    @property
    def closed(self) -> bool:
        return self.assignment.closed

    async def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Commit if that is done by itself, leave the group, let go of the brokers; all within about `timeout` seconds.

        A message in hand is not done; a polled batch is, unless an exception is under way.  Cancelled, it gives up what is
        not committed, and leaves.  Calling it again waits for the same end.
        """
        if not self.closed:
            self.end_reading(asyncio.current_task(), failed=sys.exception() is not None)
        await super().close(timeout)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end_reading(asyncio.current_task(), failed=kind is not None, block=True)
        await super().__aexit__(kind, error, traceback)

    async def finish(self) -> None:
        """Commit if that is done by itself, and leave the group."""
        self.assignment.close()
        await _cancelled(self._following, self._answering)
        await self.committer.stop()
        await self.committer.commit_settled()
        if self.membership is not None:
            await self.membership.close()

    async def let_go(self) -> None:
        """Stop fetching and close the connections; a member that could not leave in time tells so at least, and does not wait."""
        self.assignment.close()
        await _cancelled(self._following, self._answering)
        self.committer.abandon()
        if self.membership is not None:
            await self.membership.abandon()
        await self._fetcher.close()
        await self.cluster.close()

    def abandon(self) -> None:
        self.cluster.abandon()

    # The rest is for the blocking face and for ourselves.

    def _take_chunk(self) -> tuple[Chunk, int] | None:
        state = self.assignment.next_state(None)
        chunk = None if state is None else self.assignment.next_chunk(state)
        if state is None or chunk is None:
            return None
        state.position = state.messages_end
        self.reader.touched.append(state)
        self.reader.one_by_one = False
        self._metrics.bytes_consumed.record(len(chunk.records))
        return chunk, state.messages_end

    def count_consumed(self, records: int, size: int) -> None:
        """Records were decoded to be handed out; from any thread."""
        self._metrics.consumed.record(records)
        self._metrics.bytes_consumed.record(size)

    def polled(self) -> None:
        """The reader is alive; from any thread."""
        if self.membership is not None:
            self.membership.polled()

    def at_most(self, max_records: int | None) -> int:
        """How many messages a poll may return."""
        if max_records is not None and max_records < 0:
            raise ValueError(f"max_records={max_records} must be at least 1")
        return max_records or self.settings.max_poll_records

    def check_open(self) -> None:
        if self.closed:
            raise TidelogError("the consumer is closed")

    def end_reading(self, closer: object, *, failed: bool, block: bool = False) -> None:
        """The reader does not come back; the first to say so decides what it is done with."""
        if not self.reader.belongs_to_another(closer):
            self.reader.end(block_ended_well=block and not failed, failed=failed)

    async def look(self, take: Callable[[], T], timeout: float | None) -> T:
        """What `take` finds, as soon as there is something, or in the end nothing."""
        loop = asyncio.get_running_loop()
        self.reader.owner = asyncio.current_task()
        self.reader.settle()
        patience = self.settings.default_timeout_s if timeout is None else timeout
        until = loop.time() + patience
        while True:
            self._ready.clear()
            pause, away = self.wake_s, None
            try:
                found = await self._poll_once(take)
                if found or self.closed:
                    return found
            except Away as error:
                away, pause = error, self.settings.retry_backoff_ms / 1000
            left = until - loop.time()
            if left <= 0:
                if away is not None:
                    raise away.cause
                self.assignment.complain()
                if timeout is not None:
                    return found
                until = loop.time() + patience
                continue
            try:
                async with asyncio.timeout(min(left, pause)):
                    await self._ready.wait()
            except TimeoutError:
                pass

    async def _poll_once(self, take: Callable[[], T]) -> T:
        while True:
            self.polled()
            await self._answer_calls()
            self.assignment.check()
            try:
                return take()
            except BadMessage as error:
                if self.decoder.raises:
                    self.reader.pass_by(error, None)
                    raise
                verdict = self.decoder.judge(error)
                if inspect.isawaitable(verdict):
                    verdict = await verdict
                self.reader.pass_by(error, verdict)
                self.reader.settle()

    async def _answer_calls(self) -> None:
        """Do what must be done in the reader's place; a listener that has begun comes to its end, also if the reader does not."""
        while self._answering is not None or self.assignment.calls:
            if self._answering is None:
                call = self.assignment.calls.popleft()
                try:
                    result = call.action()
                except BaseException:
                    call.done()
                    raise
                if not inspect.isawaitable(result):
                    call.done()
                    continue
                self._answering = asyncio.ensure_future(_finished(result, call.done))
            answering = self._answering
            await asyncio.shield(answering)
            self._answering = None

    # What a consumer does otherwise whose group is kept by another cluster.

    def _make_fetcher(self, metrics: ConsumerMetrics) -> Fetcher:
        return Fetcher(self.cluster, self.settings, metrics)

    def _make_cluster(self, metrics: ConsumerMetrics) -> Cluster:
        return Cluster(self.settings, metrics=metrics)

    def _subscribe(
        self,
        wish: Wish,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        if self.assignment.states and self.wish is None:
            raise TidelogError("partitions are assigned by hand; use a consumer for one of both")
        self.wish = wish
        if self.settings.group_id:
            if self.membership is None:
                modern = self.settings.group_protocol == "consumer"
                self.membership = (ConsumerMembership if modern else ClassicMembership)(
                    self.cluster,
                    self.settings,
                    self.assignment,
                    self._metrics,
                    revoking=self.committer.commit_settled,
                )
                self.committer.membership = self.membership
            self.membership.on_assigned = on_assigned
            self.membership.on_revoked = on_revoked
            self.membership.on_lost = on_lost
            self.membership.subscribe(wish)
            self.committer.start()
        elif self._following is None:
            self._following = asyncio.ensure_future(self._follow_topics())

    async def _follow_topics(self) -> None:
        """Without a group: read all partitions of the topics that are wished for, new ones too."""
        pauses = iter(self.cluster.pauses())
        while True:
            wish = self.wish
            assert wish is not None
            try:
                names = None if wish.pattern is not None else wish.names
                if names is not None:
                    for name in names:
                        await self.cluster.topic(name)
                await self.cluster.refresh(names)
            except KafkaError as error:
                if not error.retriable:
                    self.assignment.trouble(_TOPICS, error)
                await asyncio.sleep(next(pauses))
                continue
            pauses = iter(self.cluster.pauses())
            self.assignment.trouble_is_over(_TOPICS)
            wanted = [
                TopicPartition(name, index)
                for name, info in self.cluster.topics.items()
                if wish.matches(name, info.is_internal)
                for index in info.partitions
            ]
            if set(wanted) != set(self.assignment.states):
                self.assignment.replace(wanted)
            for _ in range(max(1, self.settings.metadata_max_age_ms // 1000)):
                await asyncio.sleep(min(1.0, self.settings.metadata_max_age_ms / 1000))
                if self.wish is not wish:
                    break


async def _finished(work: Awaitable[None], done: Callable[[], None]) -> None:
    try:
        await work
    finally:
        done()


async def _cancelled(*tasks: "asyncio.Future[None] | None") -> None:
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _among(partitions: Sequence[TopicPartition]) -> Callable[[TopicPartition], bool] | None:
    wanted = {TopicPartition(*tp) for tp in partitions}
    return wanted.__contains__ if wanted else None


def _check(settings: ConsumerSettings, given: set[str]) -> None:
    """With the protocol of KIP-848 the broker decides what members decided before."""
    if settings.group_protocol == "consumer":
        theirs = given & {
            "partition.assignment.strategy",
            "session.timeout.ms",
            "heartbeat.interval.ms",
        }
        if theirs:
            raise SettingsError(
                f"{', '.join(sorted(theirs))} cannot be set with group.protocol=consumer: that is the broker's"
            )
    elif settings.group_remote_assignor:
        raise SettingsError(
            f"group.remote.assignor={settings.group_remote_assignor!r} needs group.protocol=consumer"
        )
