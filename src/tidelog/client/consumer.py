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

Absent: the group protocol of KIP-848, `read_arrow`.
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
)
from typing import Any, TypeVar

from tidelog.client.assignment import Assignment, PartitionState
from tidelog.client.closing import Closing
from tidelog.client.cluster import Cluster, note_group_error
from tidelog.client.decoding import Deserializer, decode_chunk
from tidelog.client.fetcher import Fetcher
from tidelog.client.group_requests import CommittedOffset, committed_offsets, offset_commit
from tidelog.client.membership import Listener, Membership
from tidelog.client.message import Message
from tidelog.client.offsets import EARLIEST, LATEST, FoundOffset, find_offsets
from tidelog.client.reader import Reader
from tidelog.client.settings import ConsumerSettings, load
from tidelog.client.subscription import Wish
from tidelog.errors import KafkaError, SettingsError, TidelogError
from tidelog.names import TopicPartition

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
        self.deserializers = {
            "key_deserializer": key_deserializer,
            "value_deserializer": value_deserializer,
        }
        self.cluster = Cluster(self.settings)
        self._fetcher = Fetcher(self.cluster, self.settings)
        self.assignment: Assignment = self._fetcher.assignment
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
        """The first offset at or after a time in ms; -1 is the end, -2 the beginning."""
        return await find_offsets(self.cluster, times)

    # How far.

    async def commit(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None
    ) -> None:
        """Commit these offsets, or everything that was handed out."""
        given = self.assignment.positions() if offsets is None else offsets
        await self._commit(given)

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, CommittedOffset]:
        """What the group has committed for these partitions, or for all that are assigned."""
        wanted = [TopicPartition(*tp) for tp in partitions] or list(self.assignment.states)

        async def ask() -> dict[TopicPartition, CommittedOffset]:
            return await committed_offsets(self.cluster, self._group(), wanted)

        return await self._at_group(ask)

    # Messages.

    async def poll(self, max_records: int | None = None, timeout: float = 0.0) -> list[Message]:
        """Up to `max_records` messages; waits at most `timeout` seconds for the first."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        wanted = max_records or self.settings.max_poll_records
        while True:
            self._ready.clear()
            found = await self._poll_once(wanted)
            left = until - loop.time()
            if found or left <= 0:
                return found
            try:
                async with asyncio.timeout(left):
                    await self._ready.wait()
            except TimeoutError:
                pass

    async def __aiter__(self) -> AsyncIterator[Message]:
        while not self.closed:
            for message in await self.poll(timeout=3600.0):
                yield message

    async def close(self) -> None:
        """Commit if that is done by itself, leave the group, let go of the brokers."""
        if self.closed:
            return
        self.closed = True
        self.assignment.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            if self.settings.enable_auto_commit and self.settings.group_id:
                await self._commit_quietly(self.assignment.positions())
            if self.membership is not None:
                await self.membership.close()
        finally:
            await self._fetcher.close()
            await self.cluster.close()

    # The rest is for the blocking face and for ourselves.

    def decode(self, state: PartitionState) -> bool:
        """Decode the next chunk of the partition into `state.messages`; False if there is none."""
        epoch = state.epoch
        chunk = self.assignment.next_chunk(state)
        if chunk is None:
            return False
        # The fetcher has seen the checksums already.
        messages = decode_chunk(chunk, check_crcs=False, **self.deserializers)
        if state.epoch == epoch:
            state.messages = iter(messages)
        return True

    def polled(self) -> None:
        """The reader is alive; from any thread."""
        if self.membership is not None:
            self.membership.polled()

    async def _poll_once(self, wanted: int) -> list[Message]:
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
        return self.reader.take(wanted)

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
                self.membership = Membership(
                    self.cluster, self.settings, self.assignment, revoking=self._before_revocation
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
            else:
                await offset_commit(
                    self.cluster,
                    group,
                    wanted,
                    generation=member.generation,
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                )

        await self._at_group(ask)
        self._committed |= {tp: each.offset for tp, each in wanted.items()}

    async def _at_group(self, ask: Callable[[], Awaitable[T]]) -> T:
        async def attempt() -> T:
            try:
                return await ask()
            except KafkaError as error:
                note_group_error(self.cluster, self._group(), error.code)
                raise

        return await self.cluster.retrying(attempt)

    def _group(self) -> str:
        if not self.settings.group_id:
            raise SettingsError(
                "group.id is not set, so there is nothing to commit to; give the consumer one"
            )
        return self.settings.group_id
