"""Nothing waits behind what waits for it: two brokers, each of them coordinator, leader and peer of the other.

The rule and the table of who waits for whom are in docs/decisions/transactions.md.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from test_transactions_across_brokers import VERSIONS
from transaction_rig import SHARDS, TransactionRig

from tidelog.coordination.shards import shard_of
from tidelog.coordination.transactions.transaction import Identity
from tidelog.errors import CoordinatorLoadInProgress, NetworkException, NotEnoughReplicas
from tidelog.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

LEADERS = {
    (TRANSACTION_STATE, 0): 1,
    (TRANSACTION_STATE, 1): 2,
    ("events", 0): 1,
    ("events", 1): 2,
    (CONSUMER_OFFSETS, 0): 1,
    (CONSUMER_OFFSETS, 1): 2,
}
HANGS_S = 10.0
"""Nothing here waits for time: whatever takes so long has come to a stop."""


class Connections:
    """One for each pair of brokers and each purpose; on each the requests are answered one at a time, in order."""

    def __init__(self, sender: int, rigs: dict[int, TransactionRig]) -> None:
        self._rigs = rigs
        self._sender = sender
        self._busy: dict[tuple[int, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self.held: asyncio.Event | None = None
        """While it is not set no marker leaves."""

        self._waiting: dict[tuple[int, str], list[asyncio.Task[Any]]] = defaultdict(list)

    async def ask(self, broker_id: int, request: Any, *, purpose: str, **_: Any) -> Any:
        task = asyncio.ensure_future(self._ask(broker_id, request, purpose))
        self._waiting[broker_id, purpose].append(task)
        await asyncio.wait({task})
        if task.cancelled():
            raise NetworkException("hung up")
        return task.result()

    def hang_up(self, broker_id: int, purpose: str) -> None:
        for task in self._waiting.pop((broker_id, purpose), ()):
            task.cancel()

    async def _ask(self, broker_id: int, request: Any, purpose: str) -> Any:
        if isinstance(request, WriteTxnMarkersRequest):
            # The connection may have to be opened first.
            for _turn in range(20):
                await asyncio.sleep(0)
            if self.held is not None:
                await self.held.wait()
        async with self._busy[broker_id, purpose]:
            return await self._rigs[broker_id].ask(request, VERSIONS[type(request)])


class Pair:
    def __init__(self, directory: Path) -> None:
        self.rigs: dict[int, TransactionRig] = {}
        self.connections = {each: Connections(each, self.rigs) for each in (1, 2)}
        for broker_id in (1, 2):
            self.rigs[broker_id] = TransactionRig(
                directory / str(broker_id),
                broker_id=broker_id,
                leaders=LEADERS,
                peers=self.connections[broker_id],
            )
        for rig in self.rigs.values():
            for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
                rig._open(name)
            rig.start()

    async def settle(self) -> None:
        for _ in range(3):
            for rig in self.rigs.values():
                await rig.settle()


@pytest.fixture
async def pair(tmp_path) -> AsyncIterator[Pair]:
    made = Pair(tmp_path)
    await made.settle()
    yield made
    for rig in made.rigs.values():
        await rig.stop()


def named_for(shard: int, count: int = 1) -> list[str]:
    """Ids of this shard."""
    found = (f"id-{number}" for number in range(1000))
    return [each for each in found if shard_of(each, SHARDS) == shard][:count]


async def test_questions_of_two_brokers_do_not_stand_before_each_others_markers(pair):
    """Each asks the other to let the next transaction in, which waits for markers that come the same way as the question."""
    keys = {1: named_for(0)[0], 2: named_for(1)[0]}
    producers = {each: await pair.rigs[each].init(keys[each]) for each in (1, 2)}

    async def produce(coordinator: int, version: int = 12) -> int:
        leader = 3 - coordinator
        return await pair.rigs[leader].produce(
            producers[coordinator], leader - 1, b"v", key=keys[coordinator], version=version
        )

    async with asyncio.timeout(HANGS_S):
        for _ in range(20):
            assert await asyncio.gather(produce(1), produce(2)) == [0, 0]
            ends = (pair.rigs[e].end(producers[e], key=keys[e], version=5) for e in (1, 2))
            for each, ended in zip((1, 2), await asyncio.gather(*ends), strict=True):
                assert ended.error_code == 0
                producers[each] = Identity(ended.producer_id, ended.producer_epoch)
        await pair.settle()
        assert await pair.rigs[1].read() == [[b"v"] * 20, []]


@pytest.mark.parametrize("what", ["produce", "offsets"])
async def test_markers_that_are_slow_keep_others_waiting_for_a_moment_only(pair, what):
    """A leader that hangs holds back the transactions that touch it, and no others."""
    stuck, well = named_for(0, 2)
    group = named_for(1)[0]
    coordinator, leader = pair.rigs[1], pair.rigs[2]

    def ask(producer: Identity, key: str) -> Any:
        if what == "produce":
            return leader.produce(producer, 1, b"v", key=key, version=12)
        return leader.commit_offset(producer, 7, group=group, key=key, version=5)

    first = await coordinator.init(stuck)
    other = await coordinator.init(well)
    assert await ask(first, stuck) == 0
    pair.connections[1].held = asyncio.Event()
    ended = await coordinator.end(first, key=stuck, version=5)
    following = Identity(ended.producer_id, ended.producer_epoch)
    waiting = asyncio.ensure_future(ask(following, stuck))
    await pair.settle()
    behind = asyncio.ensure_future(ask(other, well))
    await pair.settle()
    assert not waiting.done()
    async with asyncio.timeout(HANGS_S):
        await coordinator.timers.advance(1_000)
        refusal = NotEnoughReplicas if what == "produce" else CoordinatorLoadInProgress
        assert await waiting == refusal.code  # it comes again
        assert await behind == 0
        assert (
            await ask(following, stuck) == refusal.code
        )  # at once: nobody waits for these markers a second time
        pair.connections[1].held.set()
        await pair.settle()
        assert await ask(following, stuck) == 0


async def test_a_broker_that_is_gone_is_not_waited_for(pair):
    """It stands still and does not answer; whoever leads in its stead is asked as soon as that is known."""
    (key,) = named_for(0)
    coordinator, leader = pair.rigs[1], pair.rigs[2]
    producer = await coordinator.init(key)
    assert await leader.produce(producer, 1, b"v", key=key, version=12) == 0
    pair.connections[1].held = asyncio.Event()
    assert (await coordinator.end(producer, key=key, version=5)).error_code == 0
    await pair.settle()
    pair.connections[1].held = None  # for all that come later
    await coordinator.timers.advance(10_000)
    await pair.settle()
    assert await leader.read() == [[], []]
    coordinator.services.transactions.broker_gone(2)
    await pair.settle()
    await coordinator.timers.advance(1_000)
    await pair.settle()
    assert await leader.read() == [[], [b"v"]]


async def test_a_batch_is_let_in_however_busy_its_coordinator_is(tmp_path, monkeypatch):
    """What others write to the same shard meanwhile is nothing that a batch has to wait for."""
    rig = TransactionRig(tmp_path)
    for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        rig._open(name)
    rig.start()
    await rig.settle()
    producer = await rig.init()
    shard = rig.partition(shard_of("x", SHARDS), TRANSACTION_STATE)
    commits: list[asyncio.Future[None]] = []

    def committed(offset: int) -> "asyncio.Future[None]":
        commits.append(asyncio.get_running_loop().create_future())
        return commits[-1]

    monkeypatch.setattr(type(shard), "committed", _for(shard, committed))
    produced = asyncio.ensure_future(rig.produce(producer, 0, b"v", version=12))
    await rig.settle()
    (added,) = commits
    added.set_result(None)  # there is always another record of somebody else that is not committed
    await rig.settle()
    assert produced.done()
    assert await produced == 0
    monkeypatch.undo()
    await rig.stop()


def _for(shard: Any, committed: Callable[[int], Any]) -> Any:
    original = type(shard).committed
    return lambda self, offset: committed(offset) if self is shard else original(self, offset)
