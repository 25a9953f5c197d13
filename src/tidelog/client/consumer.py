"""The consumer.

    with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        consumer.subscribe("orders")
        for message in consumer:
            ...

Iteration never ends: it waits when there is nothing.  `poll` returns what there is, `streams` gives several iterators
for several threads.  Messages are fetched ahead in the background and decoded where they are read.
`AsyncConsumer` (as `tidelog.aio.Consumer`) is the same on the caller's own loop.

What is committed without being asked for is what the reader has come back from: a message counts as done when the
next one is asked for.  `commit()` commits everything that was handed out, the message in hand included.
"""

import asyncio
import inspect
import logging
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.client.assignment import COMMITTED, Assignment, PartitionState
from tidelog.client.classic_membership import ClassicMembership
from tidelog.client.closing import Closing
from tidelog.client.cluster import Cluster, note_coordinator_error
from tidelog.client.consumer_membership import ConsumerMembership
from tidelog.client.decoding import Chunk, Deserializer, Unfolding, decode_chunk
from tidelog.client.fetcher import Fetcher
from tidelog.client.group_requests import (
    CommittedOffset,
    GroupMetadata,
    committed_offsets,
    offset_commit,
)
from tidelog.client.membership import Listener, Membership
from tidelog.client.message import Message
from tidelog.client.metrics import ConsumerMetrics
from tidelog.client.offsets import EARLIEST, LATEST, FoundOffset, find_offsets
from tidelog.client.reader import Reader
from tidelog.client.settings import ConsumerSettings, load, names_given
from tidelog.client.subscription import Wish
from tidelog.errors import (
    KafkaError,
    LeaderNotAvailable,
    SettingsError,
    StaleMemberEpoch,
    TidelogError,
)
from tidelog.names import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

T = TypeVar("T")

Names = str | Iterable[str] | None


class AsyncConsumer(Closing):
    """A consumer on the running loop."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        topics: Names = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **options: Any,
    ) -> None:
        self.settings = load(ConsumerSettings, config, options)
        _check(self.settings, names_given(config, options))
        self.deserializers = {
            "key_deserializer": key_deserializer,
            "value_deserializer": value_deserializer,
        }
        self._metrics = ConsumerMetrics()
        self.cluster = self._make_cluster(self._metrics)
        self._fetcher = self._make_fetcher(self._metrics)
        self.assignment: Assignment = self._fetcher.assignment
        self._metrics.gauge("assigned-partitions", lambda: len(self.assignment.states))
        self._metrics.gauge(
            "records-lag-max", lambda: max(self.assignment.lag().values(), default=0)
        )
        self.membership: Membership | None = None
        self.wish: Wish | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._ready = asyncio.Event()
        self.assignment.announce = self._ready.set
        self.reader = Reader(self.assignment, self.decode)
        self.closed = False
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
        self._start_committing()

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

    async def commit(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None
    ) -> None:
        """Commit these offsets, or everything that was handed out."""
        given = self.assignment.positions() if offsets is None else offsets
        await self._commit(given)

    async def group_metadata(self) -> GroupMetadata:
        """Who this consumer is to its group, for `Producer.send_offsets`; tells a member that was replaced from its successor."""
        if self.membership is None:
            return GroupMetadata(self._group())
        return self.membership.metadata

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, CommittedOffset]:
        """What the group has committed for these partitions, or for all that are assigned."""
        wanted = [TopicPartition(*tp) for tp in partitions] or list(self.assignment.states)

        async def ask() -> dict[TopicPartition, CommittedOffset]:
            stable = self.settings.isolation_level == "read_committed"
            return await committed_offsets(
                self.cluster, self._group(), wanted, require_stable=stable
            )

        return await self._at_group(ask)

    def metrics(self) -> dict[str, float]:
        """What the consumer has measured of itself, under the names of Kafka's manual."""
        return self._metrics.read()

    # Messages.

    async def poll(self, max_records: int | None = None, timeout: float = 0.0) -> list[Message]:
        """Up to `max_records` messages; waits at most `timeout` seconds for the first."""
        wanted = max_records or self.settings.max_poll_records
        return await self.look(lambda: self.reader.take(wanted), timeout)

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
        return await self.look(lambda: reader.take_table(max_records or ROWS, most), timeout)

    async def arrow_batches(
        self, columns: Sequence[str] | None = None
    ) -> "AsyncIterator[pa.RecordBatch]":
        """Everything as Arrow's record batches, without end, as iteration gives messages."""
        from tidelog.client.columnar import ROWS, ColumnReader

        reader = ColumnReader.beside(self.reader, columns)
        while not self.closed:
            if (state := await self.look(reader.next_state, 3600.0)) is not None:
                for batch in reader.take_rows(state, ROWS):
                    yield batch

    async def next_chunk(self, timeout: float = 0.0) -> tuple[Chunk, int] | None:
        """What one fetch brought for one partition, as it came, and the offset after it; waits at most `timeout` seconds.

        For whoever passes batches on or counts them without decoding.  It must not be mixed with `poll`.
        """
        return await self.look(self._take_chunk, timeout)

    async def __aiter__(self) -> AsyncIterator[Message]:
        while not self.closed:
            for message in await self.poll(timeout=3600.0):
                yield message

    async def finish(self) -> None:
        """Commit if that is done by itself, and leave the group."""
        self.closed = True
        self.assignment.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.settings.enable_auto_commit and self.settings.group_id:
            await self._commit_quietly(self.assignment.positions())
        if self.membership is not None:
            await self.membership.close()

    async def let_go(self) -> None:
        """Stop fetching and close the connections."""
        await self._fetcher.close()
        await self.cluster.close()

    def abandon(self) -> None:
        self.cluster.abandon()

    # The rest is for the blocking face and for ourselves.

    def decode(self, state: PartitionState, unfolding: Unfolding) -> bool:
        """Decode the next chunk of the partition into `state.messages`; False if there is none."""
        epoch = state.epoch
        chunk = self.assignment.next_chunk(state)
        if chunk is None:
            return False
        # The fetcher has seen the checksums already.
        messages = decode_chunk(chunk, check_crcs=False, unfolding=unfolding, **self.deserializers)
        self.count_consumed(len(messages), len(chunk.records))
        if state.epoch == epoch:
            state.messages = iter(messages)
        return True

    def _take_chunk(self) -> tuple[Chunk, int] | None:
        state = self.assignment.next_state(None)
        chunk = None if state is None else self.assignment.next_chunk(state)
        if state is None or chunk is None:
            return None
        state.position = state.messages_end
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

    async def look(self, take: Callable[[], T], timeout: float) -> T:
        """What `take` finds, as soon as there is something, or in the end nothing."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while True:
            self._ready.clear()
            found = await self._poll_once(take)
            left = until - loop.time()
            if found or left <= 0:
                return found
            try:
                async with asyncio.timeout(left):
                    await self._ready.wait()
            except TimeoutError:
                pass

    async def _poll_once(self, take: Callable[[], T]) -> T:
        self.reader.settle()
        self.polled()
        while self.assignment.calls:
            call = self.assignment.calls.popleft()
            try:
                result = call.action()
                if inspect.isawaitable(result):
                    await result
            finally:
                call.done()
        self.assignment.check()
        return take()

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
        first = self.wish is None
        self.wish = wish
        if self.settings.group_id:
            if self.membership is None:
                modern = self.settings.group_protocol == "consumer"
                self.membership = (ConsumerMembership if modern else ClassicMembership)(
                    self.cluster,
                    self.settings,
                    self.assignment,
                    self._metrics,
                    revoking=self._before_revocation,
                )
            self.membership.on_assigned = on_assigned
            self.membership.on_revoked = on_revoked
            self.membership.on_lost = on_lost
            self.membership.subscribe(wish)
            self._start_committing()
        elif first:
            self._tasks.append(asyncio.ensure_future(self._follow_topics()))

    async def _follow_topics(self) -> None:
        """Without a group: read all partitions of the topics that are wished for, new ones too."""
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
                    self.assignment.fail(error)
                    return
                await asyncio.sleep(self.settings.retry_backoff_ms / 1000)
                continue
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

    def _start_committing(self) -> None:
        if self.settings.enable_auto_commit and self.settings.group_id and not self._tasks:
            self._tasks.append(asyncio.ensure_future(self._commit_now_and_then()))

    async def _commit_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self.settings.auto_commit_interval_ms / 1000)
            await self._commit_quietly(self.assignment.positions(settled=True))

    async def _before_revocation(self, gone: Collection[TopicPartition]) -> None:
        if self.settings.enable_auto_commit:
            settled = self.assignment.positions(settled=True)
            await self._commit_quietly({tp: at for tp, at in settled.items() if tp in gone})

    async def _commit_quietly(self, offsets: Mapping[TopicPartition, int]) -> None:
        new = {tp: at for tp, at in offsets.items() if self._committed.get(tp) != at}
        if not new:
            return
        try:
            await self._commit(new)
        except KafkaError as error:
            _log.warning(
                "offsets of group %s were not committed: %s", self.settings.group_id, error
            )

    async def _commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset]) -> None:
        group = self._group()
        wanted = {
            TopicPartition(*tp): each
            if isinstance(each, CommittedOffset)
            else CommittedOffset(each, "")
            for tp, each in offsets.items()
        }
        if not wanted:
            return
        member = self.membership

        async def ask() -> None:
            if member is None:
                await offset_commit(self.cluster, group, wanted)
                return
            generation = member.generation
            try:
                await offset_commit(
                    self.cluster,
                    group,
                    wanted,
                    generation=generation,
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                )
            except StaleMemberEpoch:
                if member.generation > generation:  # it was raised meanwhile (KIP-848)
                    await ask()
                else:
                    raise

        asked_at = self._metrics.clock()
        await self._at_group(ask)
        self._metrics.commit_latency.record((self._metrics.clock() - asked_at) * 1000)
        self._committed |= {tp: each.offset for tp, each in wanted.items()}

    async def _at_group(self, ask: Callable[[], Awaitable[T]]) -> T:
        async def attempt() -> T:
            try:
                return await ask()
            except KafkaError as error:
                note_coordinator_error(self.cluster, self._group(), error.code)
                raise

        return await self.cluster.retrying(attempt)

    def _group(self) -> str:
        if not self.settings.group_id:
            raise SettingsError(
                "group.id is not set, so there is nothing to commit to; give the consumer one"
            )
        return self.settings.group_id


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
