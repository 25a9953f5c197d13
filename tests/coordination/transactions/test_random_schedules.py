"""Producers, their zombies, time and crashes in random order: what must hold whatever happens."""

import asyncio
import contextlib
import random

import pytest

from tidelog.coordination.transactions.states import (
    COMPLETE,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_COMMIT,
    PREPARED,
)
from tidelog.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    KafkaStorageError,
    ProducerFenced,
)

EXPECTED = (ConcurrentTransactions, InvalidProducerIdMapping, InvalidTxnState, ProducerFenced)
KEYS = ("a", "b")
STEPS = 120


class Schedule:
    """One run.  A producer is anybody who was ever given an identity, and may act on it at any later time."""

    def __init__(self, world, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.version = self.random.choice((0, 2))
        self.given = {key: [] for key in KEYS}
        """Every identity that was given out, the newest last."""
        self.heirs = dict.fromkeys(KEYS)
        """Who, besides the newest, may ask again: the one whose request the newest identity answered."""
        self.fenced = set()
        """Identities whose transaction was aborted without their asking."""
        self.outcomes = {}
        """(id, start of the transaction) → whether it was decided to commit."""
        self.places = {}
        self.asked_to_end = set()

    async def run(self) -> None:
        await self.world.load()
        actions = (self.init, self.recover, self.add, self.add, self.end, self.end, self.complete)
        rare = (self.crash, self.time_passes, self.disk_fails)
        for _ in range(STEPS):
            action = self.random.choice(rare if self.random.random() < 0.15 else actions)
            with contextlib.suppress(*EXPECTED):
                await action(self.random.choice(KEYS))
            self.observe()
        await self.world.runtime.close()

    def someone(self, key: str):
        """Mostly the current owner, sometimes one from before."""
        known = self.given[key]
        if not known:
            raise InvalidProducerIdMapping
        return known[-1] if self.random.random() < 0.7 else self.random.choice(known)

    def gave(self, key: str, identity, *, may_repeat: bool, to=None) -> None:
        if identity in self.given[key]:
            assert may_repeat, identity
            assert identity == self.given[key][-1]
            return
        others = [each for each in self.given[key] if each.producer_id == identity.producer_id]
        assert all(each.producer_epoch < identity.producer_epoch for each in others)
        assert not any(identity in self.given[other] for other in KEYS if other != key)
        self.given[key].append(identity)
        self.heirs[key] = to

    def is_heard(self, key: str, asks) -> bool:
        return asks not in self.fenced and asks in (self.given[key][-1], self.heirs[key])

    async def init(self, key: str) -> None:
        self.gave(key, await self.world.init(key), may_repeat=False)

    async def recover(self, key: str) -> None:
        asks = self.someone(key)
        told = await self.world.init(key, expected=asks)
        # Only the owner, or one whose answer may have been lost, is heard.
        assert self.is_heard(key, asks)
        self.gave(key, told, may_repeat=True, to=asks)

    async def add(self, key: str) -> None:
        asks = self.someone(key)
        await self.world.add(asks, ("t", self.random.randrange(3)), key=key)
        assert asks == self.given[key][-1], "a zombie was let in"
        assert asks not in self.fenced

    async def end(self, key: str) -> None:
        asks = self.someone(key)
        before = self.world.shard.transactions.get(key)
        told = await self.world.end(asks, self.random.random() < 0.5, version=self.version, key=key)
        if before is not None and before.state is ONGOING:
            assert asks == self.given[key][-1], "a zombie ended a transaction of its successor"
            self.asked_to_end.add((key, before.start_ms))
        assert self.is_heard(key, asks)
        self.gave(key, told, may_repeat=True, to=asks)

    async def complete(self, key: str) -> None:
        await self.world.complete(key)

    async def crash(self, key: str) -> None:
        before = self.world.recorded()
        await self.world.crash()
        assert self.world.recorded() == before, "what is replayed is not what was there"

    async def time_passes(self, key: str) -> None:
        self.world.pass_ms(self.random.choice((1, 1_000, 45_000)))

    async def disk_fails(self, key: str) -> None:
        before = self.world.recorded()
        self.world.journal.fail = KafkaStorageError()
        with contextlib.suppress(KafkaError):
            await self.random.choice((self.add, self.end, self.init))(key)
        self.world.journal.fail = None
        assert self.world.recorded() == before

    def observe(self) -> None:
        """The outcome of a transaction is decided once, and its partitions stay until it is carried out."""
        self.world.clock.advance(1)  # so that no two transactions begin at the same time
        for key, known in self.world.shard.transactions.items():
            transaction = (key, known.start_ms)
            if known.state is ONGOING:
                assert transaction not in self.outcomes
                assert self.places.get(transaction, frozenset()) <= known.places
                self.places[transaction] = known.places
            elif known.state in PREPARED and known.places:
                # (without a partition it is an abort of KIP-890 before any batch arrived)
                assert known.places == self.places[transaction]
                commit = known.state is PREPARE_COMMIT
                if transaction not in self.asked_to_end:
                    assert not commit
                    self.fenced.add(self.given[key][-1])
                assert self.outcomes.setdefault(transaction, commit) == commit
            elif known.state in COMPLETE and transaction in self.outcomes and not self.version:
                assert self.outcomes[transaction] == (known.state is COMPLETE_COMMIT)
            if known.state in PREPARED:
                assert key in self.world.prepared, "nobody writes its markers"


@pytest.mark.parametrize("seed", range(150))
def test_random_schedule(make_world, seed):
    asyncio.run(Schedule(make_world(), seed).run())
