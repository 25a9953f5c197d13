"""The group coordinator as handlers see it: groups by id, answers as protocol messages.

    coordinator = GroupCoordinator(broker_id=…, clock=…, image=…, partitions=…, ensure_topic=…, config=…)
    coordinator.follow()                      # loads what this broker leads by now, forgets the rest
    response = await coordinator.join_group(request, client)

A group belongs to the partition of `__consumer_offsets` that its id hashes to; that topic is made when a first
client asks for its coordinator.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple
from uuid import uuid4

from tidelog.clock import Clock
from tidelog.cluster.image import Image
from tidelog.cluster.lease import Lease
from tidelog.cluster.partition import Partition
from tidelog.cluster.partitions import Partitions
from tidelog.coordination.groups import describe
from tidelog.coordination.groups.config import GroupConfig
from tidelog.coordination.groups.environment import Client, Environment, GroupCounts, TopicView
from tidelog.coordination.groups.records import Change, decode_change, encode_change
from tidelog.coordination.groups.shard import GroupShard
from tidelog.coordination.journal import PartitionJournal
from tidelog.coordination.runtime import Decision, EndOfTransaction, Reply, Runtime, ShardTimers
from tidelog.coordination.shards import Shards
from tidelog.coordination.timers import CallLater, Timers
from tidelog.errors import (
    CoordinatorLoadInProgress,
    InvalidGroupId,
    InvalidRequest,
    KafkaError,
)
from tidelog.names import CONSUMER_OFFSETS
from tidelog.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.messages.describe_groups import DescribedGroup
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.protocol.messages.leave_group import MemberIdentity
from tidelog.protocol.messages.list_groups import ListedGroup
from tidelog.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tidelog.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

log = logging.getLogger(__name__)

_MAX_GROUP_ID = 32767
"""Records store an id's length in an int16."""


class GroupCoordinator:
    """The groups whose partitions of `__consumer_offsets` this broker leads."""

    def __init__(
        self,
        *,
        broker_id: int,
        clock: Clock,
        image: Callable[[], Image],
        partitions: Partitions,
        ensure_topic: Callable[[str], Awaitable[object]],
        config: Callable[[], GroupConfig],
        call_later: CallLater | None = None,
        lease: Lease | None = None,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._clock = clock
        self._image = image
        self._config = config
        self._new_id = new_id
        self.counts = GroupCounts()
        self.timers = Timers(clock, call_later)
        self._runtime: Runtime[Change] = Runtime(
            make_state=self._make_shard, timers=self.timers, name=CONSUMER_OFFSETS
        )
        self._shards = Shards(
            CONSUMER_OFFSETS,
            broker_id=broker_id,
            runtime=self._runtime,
            image=image,
            partitions=partitions,
            ensure_topic=ensure_topic,
            journal=self._journal,
            lease=lease,
        )

    # ------------------------------------------------------------------ life

    def follow(self) -> None:
        """The image has changed: load what this broker leads by now, and forget what it leads no longer."""
        self._shards.follow()

    async def stop(self) -> None:
        """Send away who waits, and forget everything."""
        await self._runtime.close()
        self.timers.cancel_all()

    async def topics_deleted(self, names: Iterable[str]) -> None:
        """Forget the offsets of topics that were deleted."""
        gone = frozenset(names)
        for index, _ in self._runtime.states():
            try:
                await self._runtime.write(index, lambda shard: shard.topics_deleted(gone))
            except KafkaError as error:
                log.warning("offsets of %s are not deleted: %s", ", ".join(sorted(gone)), error)

    # ------------------------------------------------------------------ where a group is

    async def find_coordinator(self, group_id: str) -> int:
        """The broker that coordinates the group; if it is this one, the group is loaded.  Raises while there is none."""
        return await self._shards.find(_storable(group_id))

    async def locate(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds the group's offsets, whoever leads it."""
        return await self._shards.locate(_storable(group_id))

    async def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds the group's offsets, loaded here."""
        return await self._shards.index_of(_storable(group_id))

    def _journal(self, partition: Partition) -> PartitionJournal[Change]:
        return PartitionJournal(
            partition,
            clock=self._clock,
            encode=encode_change,
            decode=_decoded,
            load_bytes=self._config().offsets_load_buffer_bytes,
        )

    def _make_shard(self, index: int, timers: ShardTimers[Change]) -> GroupShard:
        topics = _ImageTopics(self._image)
        return GroupShard(
            Environment(
                self._clock, timers, self._config, lambda: topics, self._new_id, self.counts
            )
        )

    async def _write(
        self, group_id: str, decide: Callable[[GroupShard], Decision[Change, Any]]
    ) -> Any:
        return await self._runtime.write(await self.partition_of(group_id), decide)

    async def _wait(
        self, group_id: str, decide: Callable[[GroupShard, Reply], Decision[Change, None]]
    ) -> Any:
        """For requests that the group answers in its own time."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        index = await self.partition_of(group_id)
        await self._runtime.write(index, lambda shard: decide(shard, _reply_to(answer)))
        result = await answer
        if isinstance(result, KafkaError):
            raise result
        return result

    # ------------------------------------------------------------------ membership

    async def join_group(self, request: JoinGroupRequest, client: Client) -> JoinGroupResponse:
        """Answered when the member's generation begins."""
        _check_group_id(request.group_id)
        joined: JoinGroupResponse = await self._wait(
            request.group_id, lambda shard, reply: shard.join(request, client, reply)
        )
        return joined

    async def sync_group(self, request: SyncGroupRequest) -> SyncGroupResponse:
        """Answered when the leader has assigned."""
        _check_group_id(request.group_id)
        synced: SyncGroupResponse = await self._wait(
            request.group_id, lambda shard, reply: shard.sync(request, reply)
        )
        return synced

    async def heartbeat(self, request: HeartbeatRequest) -> None:
        _check_group_id(request.group_id)
        await self._write(request.group_id, lambda shard: shard.heartbeat(request))

    async def leave_group(self, group_id: str, leavers: list[MemberIdentity]) -> list[int]:
        """An error code for each of the leavers."""
        _check_group_id(group_id)
        codes: list[int] = await self._write(group_id, lambda shard: shard.leave(group_id, leavers))
        return codes

    async def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> ConsumerGroupHeartbeatResponse:
        if not request.group_id:
            raise InvalidRequest("group_id must not be empty")
        told: ConsumerGroupHeartbeatResponse = await self._write(
            request.group_id, lambda shard: shard.consumer_heartbeat(request, client)
        )
        return told

    # ------------------------------------------------------------------ offsets

    async def offset_commit(
        self, request: OffsetCommitRequest, api_version: int
    ) -> OffsetCommitResponse:
        response: OffsetCommitResponse = await self._write(
            request.group_id, lambda shard: shard.commit(request, api_version)
        )
        return response

    async def offset_fetch(
        self, request: OffsetFetchRequestGroup, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        response: OffsetFetchResponseGroup = await self._write(
            request.group_id, lambda shard: Decision(shard.fetch(request, require_stable))
        )
        return response

    async def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, check: Callable[[], None]
    ) -> TxnOffsetCommitResponse:
        """Store offsets that count when the producer's transaction is committed.

        `check` is called in the moment of the append: it raises if the transaction is over by then.
        """

        def decide(shard: GroupShard) -> Decision[Change, TxnOffsetCommitResponse]:
            check()
            return shard.commit_in_transaction(request)

        response: TxnOffsetCommitResponse = await self._write(request.group_id, decide)
        return response

    async def end_transaction(self, index: int, end: EndOfTransaction) -> None:
        """Write the end of a transaction to a partition of `__consumer_offsets`, and obey it."""
        await self._shards.ensure_loaded(index)
        await self._runtime.end_transaction(index, end)

    async def offset_delete(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        response: OffsetDeleteResponse = await self._write(
            request.group_id, lambda shard: shard.delete_offsets(request)
        )
        return response

    # ------------------------------------------------------------------ administration

    async def list_groups(self, states: list[str], types: list[str]) -> list[ListedGroup]:
        """The groups in these states and of these types; an empty list means any."""
        if any(self._runtime.is_loading(index) for index in range(self._shards.count)):
            raise CoordinatorLoadInProgress
        wanted_states = {each.lower() for each in states}
        wanted_types = {each.lower() for each in types}
        listed = [
            describe.listed(group)
            for _, shard in self._runtime.states()
            for group in shard.groups.values()
        ]
        return [
            each
            for each in listed
            if (not wanted_states or each.group_state.lower() in wanted_states)
            and (not wanted_types or each.group_type.lower() in wanted_types)
        ]

    def committed(self) -> Iterator[tuple[str, tuple[str, int], int]]:
        """(group, (topic, partition), offset) of all that is committed here."""
        for _, shard in self._runtime.states():
            for group_id in shard.offsets.group_ids():
                for place, each in shard.offsets.of(group_id).items():
                    yield group_id, place, each.offset

    def standings(self) -> Iterator[tuple[str, str, int]]:
        """(group, its state, how many members it has) of all groups here."""
        for _, shard in self._runtime.states():
            for group in shard.groups.values():
                yield group.group_id, describe.listed(group).group_state, len(group.members)

    async def describe_group(self, group_id: str) -> DescribedGroup:
        """A classic group; raises `GroupIdNotFound`."""
        described: DescribedGroup = await self._write(
            group_id, lambda shard: Decision(describe.classic(shard.groups.get(group_id), group_id))
        )
        return described

    async def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """A KIP-848 group; raises `GroupIdNotFound`."""
        names = self._image().topic_names
        described: DescribedConsumerGroup = await self._write(
            group_id,
            lambda shard: Decision(describe.consumer(shard.groups.get(group_id), group_id, names)),
        )
        return described

    async def delete_group(self, group_id: str) -> None:
        """Forget an empty group and its offsets."""
        await self._write(group_id, lambda shard: shard.delete_group(group_id))


class _ImageTopics(NamedTuple):
    """The image, as far as groups look at it."""

    image: Callable[[], Image]

    @property
    def version(self) -> int:
        return self.image().number

    def maybe_get(self, name: str) -> TopicView | None:
        topic = self.image().topics.get(name)
        return None if topic is None else TopicView(name, topic.id, len(topic.partitions))

    def names(self) -> Iterable[str]:
        return self.image().topics


def _decoded(key: bytes, value: bytes | None, producer_id: int) -> Change | None:
    change = decode_change(key, value)
    if change is None or producer_id < 0:
        return change
    return Change(change.key, change.value, producer_id)


def _reply_to(answer: "asyncio.Future[Any]") -> Reply:
    def reply(result: Any) -> None:
        if not answer.done():
            answer.set_result(result)

    return reply


def _storable(group_id: str) -> str:
    if len(group_id) > _MAX_GROUP_ID:
        raise InvalidGroupId(f"a group id of {len(group_id)} characters cannot be stored")
    return group_id


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise InvalidGroupId
