"""A shard of the transaction coordinator over a journal in memory, under a manual clock."""

import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tidelog.coordination.runtime import Marker, Runtime, ShardTimers
from tidelog.coordination.timers import Timers
from tidelog.coordination.transactions.config import TransactionConfig
from tidelog.coordination.transactions.records import Change, decode_change, encode_change
from tidelog.coordination.transactions.shard import (
    Environment,
    NeedsProducerId,
    TransactionShard,
)
from tidelog.coordination.transactions.transaction import NO_EPOCH, Identity, Transaction
from tidelog.errors import KafkaError
from tidelog.testing.manual_clock import ManualClock


class MemoryJournal:
    """Stored bytes, so that every record goes through its encoding."""

    def __init__(self) -> None:
        self.stored: list[tuple[bytes, bytes | None]] = []
        self.fail: KafkaError | None = None

    def append(self, records: Sequence[Change]) -> int:
        if self.fail is not None:
            raise self.fail
        self.stored += [encode_change(each) for each in records]
        return len(self.stored) - 1

    def append_in_transaction(self, records: Any, producer: Any) -> int:
        raise NotImplementedError

    def append_marker(self, marker: Any) -> int:
        raise NotImplementedError

    def committed(self, offset: int) -> None:
        return None

    def all_committed(self) -> None:
        return None

    async def scan(self) -> AsyncIterator[list[Change | Marker]]:
        for each in self.stored:
            change = decode_change(*each)
            if change is not None:
                yield [change]


class TransactionWorld:
    """One shard with everything around it; markers are written when the test says so."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = Timers(self.clock)
        self.config = TransactionConfig()
        self.journal = MemoryJournal()
        self.ids = itertools.count(100)
        self.prepared: list[str] = []
        self._start()

    def _start(self) -> None:
        self.runtime: Runtime[Change] = Runtime(
            make_state=self._make, timers=self.timers, name="test"
        )

    def _make(self, index: int, timers: ShardTimers[Change]) -> TransactionShard:
        return TransactionShard(
            Environment(self.clock, timers, lambda: self.config, self.prepared.append)
        )

    @property
    def shard(self) -> TransactionShard:
        return dict(self.runtime.states())[0]

    async def load(self) -> None:
        await self.runtime.load(0, self.journal)

    async def crash(self) -> None:
        """Forget everything that is not in the journal, and load that."""
        await self.runtime.close()
        self.timers.cancel_all()
        self.prepared.clear()
        self._start()
        await self.load()

    def known(self, transactional_id: str = "x") -> Transaction:
        return self.shard.transactions[transactional_id]

    def recorded(self) -> dict[str, Transaction]:
        """All ids, as far as the journal has them."""
        return {
            key: replace(each, last_producer_epoch=NO_EPOCH)
            for key, each in self.shard.transactions.items()
        }

    async def write(self, decide: Any) -> Any:
        """Decide with a fresh producer id only if one is needed."""
        try:
            told = await self.runtime.write(0, lambda shard: decide(shard, None))
        except NeedsProducerId:
            fresh_id = next(self.ids)
            told = await self.runtime.write(0, lambda shard: decide(shard, fresh_id))
        self.shard.check()
        return told

    async def init(
        self, key: str = "x", expected: Identity | None = None, timeout_ms: int = 60_000
    ) -> Any:
        told = await self.write(
            lambda shard, fresh: shard.init_producer_id(key, timeout_ms, expected, fresh)
        )
        if isinstance(told, KafkaError):
            raise told
        return told

    async def add(self, producer: Identity, *places: tuple[str, int], key: str = "x") -> None:
        await self.write(lambda shard, _: shard.add(key, producer, frozenset(places)))

    async def end(
        self, producer: Identity, commit: bool = True, *, version: int = 0, key: str = "x"
    ) -> Identity:
        return await self.write(
            lambda shard, fresh: shard.end(key, producer, commit, version, fresh)
        )

    async def complete(self, key: str = "x") -> None:
        """As if all markers were written."""
        if key in self.prepared:
            self.prepared.remove(key)
            identity = self.known(key).identity
            await self.write(lambda shard, _: shard.complete(key, identity))

    def pass_ms(self, ms: float) -> None:
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


@pytest.fixture
async def world() -> AsyncIterator[TransactionWorld]:
    made = TransactionWorld()
    await made.load()
    yield made
    await made.runtime.close()


@pytest.fixture
def make_world() -> type[TransactionWorld]:
    return TransactionWorld
