"""Random schedules of joins, leaves, silence, commits, failed appends and restarts, from a seed.

After each step the shard's invariants are checked; in the end the members that are left behave, and then every
partition must be owned by exactly one of them.  What a restart reads from the journal must be what was in memory.
"""

import contextlib
import random
from typing import Any

import pytest

from tests.coordination.conftest import Waiting, World
from tidelog.coordination.groups.classic.group import ClassicGroup
from tidelog.coordination.groups.consumer.group import ConsumerGroup
from tidelog.coordination.groups.consumer.member import MemberState
from tidelog.errors import KafkaError, NotCoordinator
from tidelog.protocol.messages.consumer_group_heartbeat import TopicPartitions
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

PARTITIONS = 7
SEEDS = range(40)
STEPS = 120


def recorded(world: World) -> dict[str, Any]:
    """As much of the shard as its journal holds."""
    seen: dict[str, Any] = {}
    for group_id, group in world.shard.groups.items():
        offsets = dict(world.shard.offsets.of(group_id))
        if isinstance(group, ConsumerGroup):
            seen[group_id] = (
                group.epoch, group.assignment_epoch, group.members, group.target, group.topics,
                group.owners, group.static_members, offsets,
            )  # fmt: skip
        else:
            seen[group_id] = (settled(group), offsets)
    return seen


def settled(group: ClassicGroup) -> Any:
    """A classic group's generation as its last record has it; None while it is being changed, or before the first."""
    if group.state.value not in ("Stable", "Empty") or not group.generation:
        return None
    members = {
        key: (each.group_instance_id, each.assignment) for key, each in group.members.items()
    }
    return (group.state, group.generation, group.protocol, group.leader, members)


async def commit(world: World, group: str, member: str, generation: int, offset: int) -> None:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[row])],
    )
    await world.write(lambda shard: shard.commit(request, 9))


class ClassicClient:
    """A consumer as a client library would write it: a little machine that is stepped."""

    def __init__(self, world: World, instance: str | None) -> None:
        self.world = world
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.joining: Waiting | None = None
        self.syncing: Waiting | None = None
        self.owned: bytes | None = None
        """The assignment, while the client believes in it."""

    async def step(self) -> None:
        if self.syncing is not None:
            self._take_sync()
        elif self.joining is not None:
            await self._take_join()
        elif self.owned is None:
            self.joining = await self._try(
                self.world.join(self.member_id, instance=self.instance, version=5)
            )
        else:
            await self._try(
                self.world.beat(self.member_id, self.generation, instance=self.instance)
            )

    async def _take_join(self) -> None:
        waiting = self.joining
        assert waiting is not None
        if not waiting.done:
            return
        self.joining = None
        answer = waiting.answer
        if isinstance(answer, KafkaError):
            self._failed(answer)
            return
        self.member_id = answer.member_id
        if answer.error_code:
            return
        self.generation = answer.generation_id
        made: dict[str, bytes] = {}
        for rank, each in enumerate(answer.members):
            count = len(answer.members)
            made[each.member_id] = bytes(i for i in range(PARTITIONS) if i % count == rank)
        self.syncing = await self._try(
            self.world.sync(self.member_id, self.generation, made, instance=self.instance)
        )

    def _take_sync(self) -> None:
        waiting = self.syncing
        assert waiting is not None
        if not waiting.done:
            return
        self.syncing = None
        answer = waiting.answer
        if isinstance(answer, KafkaError):
            self._failed(answer)
        else:
            self.owned = answer.assignment

    async def _try(self, call: Any) -> Any:
        try:
            return await call
        except KafkaError as error:
            self._failed(error)
            return None

    def _failed(self, error: KafkaError) -> None:
        self.owned = None
        if error.code in (22, 25, 82):
            self.member_id = ""


@pytest.mark.parametrize("seed", SEEDS)
async def test_classic(seed: int) -> None:
    dice = random.Random(seed)
    world = World()
    world.topics.create("t", PARTITIONS)
    await world.load()
    clients: list[ClassicClient] = []
    for step in range(STEPS):
        what = dice.choices(
            ["step", "new", "crash", "leave", "time", "restart", "fail", "commit"],
            [60, 6, 3, 4, 12, 2, 3, 10],
        )[0]
        client = dice.choice(clients) if clients else None
        if what == "new" and len(clients) < 5:
            taken = {each.instance for each in clients}
            instance = dice.choice([None, None, f"i{dice.randrange(3)}"])
            if instance is None or instance not in taken:
                clients.append(ClassicClient(world, instance))
        elif what == "time":
            world.pass_ms(dice.choice([50, 200, 4_000, 12_000]))
        elif what == "restart":
            await restart(world)
        elif what == "fail":
            world.journal.fail = NotCoordinator()
            if client is not None:
                await client.step()
            world.pass_ms(dice.choice([0, 0, 12_000]))
            world.journal.fail = None
        elif client is None:
            continue
        elif what == "crash":
            clients.remove(client)
        elif what == "leave":
            clients.remove(client)
            if client.member_id:
                await client._try(world.leave(client.member_id))
        elif what == "commit":
            await client._try(commit(world, "g", client.member_id, client.generation, step))
        else:
            await client.step()
        world.shard.check()
        no_partition_has_two_owners(world, clients)
    await settle_classic(world, clients)


async def restart(world: World) -> None:
    before = recorded(world)
    await world.load()
    world.shard.check()
    after = recorded(world)
    assert set(after) <= set(before)
    for group_id, seen in before.items():
        # A classic group that is being changed, or that nobody was assigned in, is memory alone.
        if seen[0] is None:
            assert seen[1] == after.get(group_id, (None, {}))[1]
        else:
            assert seen == after[group_id]


def no_partition_has_two_owners(world: World, clients: list[ClassicClient]) -> None:
    group = world.shard.groups.get("g")
    if not isinstance(group, ClassicGroup):
        return
    current = [
        each
        for each in clients
        if each.owned is not None
        and each.generation == group.generation
        and each.member_id in group.members
    ]
    given = [index for each in current for index in each.owned or b""]
    assert len(given) == len(set(given))


async def settle_classic(world: World, clients: list[ClassicClient]) -> None:
    for _ in range(60):
        for client in clients:
            await client.step()
        world.pass_ms(1_500)
    if clients:
        given = sorted(index for each in clients for index in each.owned or b"")
        assert given == list(range(PARTITIONS))
        assert set(world.shard.groups["g"].members) == {each.member_id for each in clients}
        assert world.shard.groups["g"].state.value == "Stable"
    elif "g" in world.shard.groups:
        assert world.shard.groups["g"].state.value == "Empty"
    await restart(world)


class ConsumerClient:
    """A member that gives up what it is told to, when it comes to it."""

    def __init__(
        self, world: World, member_id: str, instance: str | None, names: list[str]
    ) -> None:
        self.world = world
        self.member_id = member_id
        self.instance = instance
        self.names = names
        self.epoch = 0
        self.owned: set[tuple[Any, int]] = set()
        self.told: set[tuple[Any, int]] | None = None
        self.has_lost = False
        """An answer may have told of an assignment: the next request says everything, as clients do, to hear it again."""

    async def step(self, *, lose_answer: bool = False) -> None:
        if self.told is not None:
            self.owned, self.told = self.told, None
        fields: dict[str, Any] = {"instance_id": self.instance, "topic_partitions": self._owned()}
        if self.epoch == 0:
            self.owned = set()
            fields["topic_partitions"] = []
        if self.epoch == 0 or self.has_lost:
            fields |= {"rebalance_timeout_ms": 20_000, "subscribed_topic_names": self.names}
        self.has_lost = lose_answer
        try:
            answer = await self.world.consumer_beat(self.member_id, self.epoch, **fields)
        except KafkaError as error:
            if error.code in (25, 82, 110):
                self.epoch, self.owned = 0, set()
            return
        if lose_answer:
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            places = answer.assignment.topic_partitions
            self.told = {(each.topic_id, index) for each in places for index in each.partitions}
            self.owned &= self.told

    def _owned(self) -> list[TopicPartitions]:
        topics: dict[Any, list[int]] = {}
        for topic_id, index in sorted(self.owned, key=str):
            topics.setdefault(topic_id, []).append(index)
        return [TopicPartitions(topic_id=key, partitions=value) for key, value in topics.items()]


@pytest.mark.parametrize("seed", SEEDS)
async def test_consumer(seed: int) -> None:
    dice = random.Random(seed)
    world = World()
    world.topics.create("t", PARTITIONS)
    world.topics.create("u", 3)
    await world.load()
    clients: list[ConsumerClient] = []
    for step in range(STEPS):
        what = dice.choices(
            [
                "step",
                "lose",
                "new",
                "crash",
                "leave",
                "time",
                "restart",
                "fail",
                "grow",
                "commit",
                "names",
            ],
            [60, 5, 8, 3, 4, 8, 2, 3, 1, 5, 3],
        )[0]
        client = dice.choice(clients) if clients else None
        if what == "new" and len(clients) < 5:
            taken = {each.instance for each in clients}
            instance = dice.choice([None, None, f"i{dice.randrange(3)}"])
            if instance is None or instance not in taken:
                names = dice.choice([["t"], ["t", "u"]])
                clients.append(ConsumerClient(world, f"m{step}", instance, names))
        elif what == "time":
            world.pass_ms(dice.choice([500, 5_000, 25_000, 50_000]))
        elif what == "restart":
            await restart(world)
        elif what == "grow":
            world.topics.create("t", world.topics.views["t"].partition_count + 1)
        elif what == "fail":
            world.journal.fail = NotCoordinator()
            if client is not None:
                await client.step()
            world.pass_ms(dice.choice([0, 0, 12_000]))
            world.journal.fail = None
        elif client is None:
            continue
        elif what == "crash":
            clients.remove(client)
        elif what == "leave":
            clients.remove(client)
            await leave(world, client, dice)
        elif what == "commit":
            with contextlib.suppress(KafkaError):
                await commit(world, "cg", client.member_id, client.epoch, step)
        elif what == "names":
            client.names, client.epoch = dice.choice([["t"], ["t", "u"]]), 0
        else:
            await client.step(lose_answer=what == "lose")
        world.shard.check()
    await settle_consumer(world, clients)


async def leave(world: World, client: ConsumerClient, dice: random.Random) -> None:
    epoch = -2 if client.instance is not None and dice.random() < 0.5 else -1
    with contextlib.suppress(KafkaError):
        await world.consumer_beat(client.member_id, epoch, instance_id=client.instance)


async def settle_consumer(world: World, clients: list[ConsumerClient]) -> None:
    for _ in range(40):
        for client in clients:
            await client.step()
        world.pass_ms(3_000)
    if clients:
        group = world.shard.groups["cg"]
        assert isinstance(group, ConsumerGroup)
        assert set(group.members) == {each.member_id for each in clients}
        assert all(each.state is MemberState.STABLE for each in group.members.values())
        assert group.state_name == "Stable"
        given = [place for each in clients for place in each.owned]
        read = {name for each in clients for name in each.names}
        views = [world.topics.views[name] for name in read]
        assert len(given) == len(set(given)) == sum(each.partition_count for each in views)
    await restart(world)
