"""A shard of the group coordinator over a journal in memory, under a manual clock."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tidelog.coordination.groups.config import GroupConfig
from tidelog.coordination.groups.environment import Client, Environment, TopicView
from tidelog.coordination.groups.records import Change, decode_change, encode_change
from tidelog.coordination.groups.shard import GroupShard
from tidelog.coordination.runtime import Decision, EndOfTransaction, Marker, Runtime, ShardTimers
from tidelog.coordination.timers import Timers
from tidelog.errors import KafkaError
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.protocol.messages.leave_group import MemberIdentity
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tidelog.testing.manual_clock import ManualClock


class MemoryJournal:
    """Stored bytes, so that every record goes through its encoding."""

    def __init__(self) -> None:
        self.stored: list[tuple[bytes, bytes | None]] = []
        self.fail: KafkaError | None = None
        self.hold: list[asyncio.Future[None]] | None = None
        self.producers: dict[int, int] = {}
        """Of the records in transactions: place to producer id."""
        self.markers: dict[int, list[Marker]] = {}
        """Ends of transactions, by the place of the record that follows."""

    def append(self, records: Sequence[Change]) -> int:
        if self.fail is not None:
            raise self.fail
        self.stored += [encode_change(each) for each in records]
        return len(self.stored) - 1

    def append_in_transaction(self, records: Sequence[Change], producer: tuple[int, int]) -> int:
        first = len(self.stored)
        last = self.append(records)
        self.producers |= dict.fromkeys(range(first, last + 1), producer[0])
        return last

    def append_marker(self, marker: EndOfTransaction) -> int:
        place = len(self.stored)
        self.markers.setdefault(place, []).append(Marker(marker.producer_id, marker.commit))
        return place

    def committed(self, offset: int) -> asyncio.Future[None] | None:
        if self.hold is None:
            return None
        future = asyncio.get_running_loop().create_future()
        self.hold.append(future)
        return future

    def all_committed(self) -> asyncio.Future[None] | None:
        return self.committed(len(self.stored) - 1)

    async def scan(self) -> AsyncIterator[list[Change | Marker]]:
        chunk: list[Change | Marker] = []
        for place, stored in enumerate(self.stored):
            chunk += self.markers.get(place, ())
            change = decode_change(*stored)
            if change is not None:
                chunk.append(replace(change, producer_id=self.producers.get(place, -1)))
            if len(chunk) >= 100:
                yield chunk
                chunk = []
        yield chunk + self.markers.get(len(self.stored), [])


class FakeTopics:
    def __init__(self) -> None:
        self.version = 0
        self.views: dict[str, TopicView] = {}

    def create(self, name: str, count: int) -> TopicView:
        self.version += 1
        known = self.views.get(name)
        made = TopicView(name, known.topic_id if known else UUID(int=self.version + 1000), count)
        self.views[name] = made
        return made

    def delete(self, name: str) -> None:
        self.version += 1
        self.views.pop(name, None)

    def maybe_get(self, name: str) -> TopicView | None:
        return self.views.get(name)

    def names(self) -> list[str]:
        return list(self.views)


class Waiting:
    """An answer that comes later."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def __call__(self, answer: Any) -> None:
        self.answers.append(answer)

    @property
    def done(self) -> bool:
        return bool(self.answers)

    @property
    def answer(self) -> Any:
        assert self.answers, "no answer yet"
        return self.answers[0]

    @property
    def code(self) -> int:
        answer = self.answer
        return answer.code if isinstance(answer, KafkaError) else answer.error_code


class World:
    """One shard with everything around it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = Timers(self.clock)
        self.config = GroupConfig()
        self.topics = FakeTopics()
        self.journal = MemoryJournal()
        self.ids = itertools.count(1)
        self.runtime: Runtime[Change] = Runtime(
            make_state=self._make, timers=self.timers, name="test"
        )

    def _make(self, index: int, timers: ShardTimers[Change]) -> GroupShard:
        env = Environment(
            self.clock,
            timers,
            lambda: self.config,
            lambda: self.topics,
            lambda: f"id{next(self.ids)}",
        )
        return GroupShard(env)

    def set(self, **values: Any) -> None:
        self.config = replace(self.config, **values)

    @property
    def shard(self) -> GroupShard:
        return dict(self.runtime.states())[0]

    async def load(self) -> None:
        await self.runtime.load(0, self.journal)

    async def write(self, decide: Any) -> Any:
        made = await self.runtime.write(0, decide)
        self.shard.check()
        return made

    def pass_ms(self, ms: float) -> None:
        """Let time pass in the steps that timers ask for."""
        left = ms
        while True:
            delay = self.timers.next_delay_ms()
            if delay is None or delay > left:
                break
            self.clock.advance(delay + 0.001)
            left -= delay
            self.timers.run_due()
            self.shard.check()
        self.clock.advance(max(left, 0))

    # ------------------------------------------------------------------ the classic protocol

    async def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        version: int = 3,
        protocols: Sequence[tuple[str, bytes]] = (("range", b""),),
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
        client_id: str = "c",
    ) -> Waiting:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols],
        )
        reply = Waiting()
        client = Client(client_id, "/127.0.0.1", version)
        await self.write(lambda shard: shard.join(request, client, reply))
        return reply

    async def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
    ) -> Waiting:
        rows = [
            SyncGroupRequestAssignment(member_id=key, assignment=value)
            for key, value in (assignments or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            assignments=rows,
        )
        reply = Waiting()
        await self.write(lambda shard: shard.sync(request, reply))
        return reply

    async def beat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> None:
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        await self.write(lambda shard: shard.heartbeat(request))

    async def leave(self, *members: str, group: str = "g") -> list[int]:
        leavers = [MemberIdentity(member_id=each) for each in members]
        return await self.write(lambda shard: shard.leave(group, leavers))

    async def stable(self, *, group: str = "g", **join: Any) -> tuple[str, int]:
        """A group of one member; its id and generation."""
        waiting = await self.join(group=group, **join)
        self.pass_ms(self.config.initial_rebalance_delay_ms)
        joined = waiting.answer
        await self.sync(
            joined.member_id, joined.generation_id, {joined.member_id: b"all"}, group=group
        )
        return joined.member_id, joined.generation_id

    # ------------------------------------------------------------------ the consumer protocol

    async def consumer_beat(
        self, member_id: str, epoch: int, *, group: str = "cg", version: int = 1, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member_id, member_epoch=epoch, **fields
        )
        client = Client("c", "/127.0.0.1", version)
        return await self.write(lambda shard: shard.consumer_heartbeat(request, client))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.load()
    yield made
    await made.runtime.close()


__all__ = ["Decision", "World"]
