"""One instance's writes: when it may decide, when it waits, and whom it asks."""

import asyncio
from typing import Any

import pytest

from tidelog.errors import NetworkException
from tidelog.schemas import decisions
from tidelog.schemas import registry as module
from tidelog.schemas.election import Leader
from tidelog.schemas.errors import RegistryError
from tidelog.schemas.forwarding import Answer, Forwarded, NobodyThere
from tidelog.schemas.journal import Entry, NoopKey
from tidelog.schemas.model import Proposal, Schema
from tidelog.schemas.registry import Registry, RegistryOptions
from tidelog.schemas.state import State
from tidelog.schemas.writer import NotTheWriter, TooLarge

HERE, ELSEWHERE = Leader("http://me:1", True), Leader("http://you:1", False)
REQUEST = Forwarded("POST", "/subjects/s/versions", b"{}", False)


class FakeLog:
    """Topic and writer in one: what is appended is read back when `reading` is on."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.entries: list[Entry] = []
        self.read = 0
        self.reading = True
        self.ready = False
        self.failures: list[Exception] = []
        self.tells_offsets = True
        self.moved = asyncio.Condition()

    @property
    def stale(self) -> bool:
        return not self.ready

    async def take_over(self, max_id: int) -> int:
        self.ready = False
        self.entries.append((NoopKey(), max_id))
        await self.catch_up()
        return len(self.entries) - 1 if self.tells_offsets else -1

    async def append(self, entries: tuple[Entry, ...]) -> int:
        if self.failures:
            self.ready = False
            raise self.failures.pop()
        self.entries += entries
        await self.catch_up()
        return len(self.entries) - 1 if self.tells_offsets else -1

    async def catch_up(self) -> None:
        if self.reading:
            for entry in self.entries[self.read :]:
                self.state.replay(entry)
            self.read = len(self.entries)
            async with self.moved:
                self.moved.notify_all()

    async def reached(self, offset: int) -> None:
        async with self.moved:
            await self.moved.wait_for(lambda: self.read > offset)

    async def end(self) -> int:
        return len(self.entries)


class FakeElection:
    def __init__(self, leader: Leader | None) -> None:
        self.leader = leader
        self.confirmed = 0

    async def confirm(self) -> bool:
        self.confirmed += 1
        return self.leader is not None and self.leader.is_me


def instance(leader: Leader | None) -> tuple[Any, FakeLog]:
    registry: Any = Registry({"bootstrap.servers": "nowhere:1"}, RegistryOptions(), "me", 1)
    log = FakeLog(registry.state)
    registry._topic = registry._writer = log
    registry._election = FakeElection(leader)
    return registry, log


async def refused(registry: Any, decide: Any) -> int:
    """The code with which a write ends that nothing can help: it is not waited for."""
    registry.options = RegistryOptions(write_timeout_s=0.05)
    try:
        with pytest.raises(RegistryError) as told:
            await registry.write(decide, REQUEST)
        return told.value.code
    finally:
        registry.options = RegistryOptions()


def register(subject: str, text: str) -> Any:
    return lambda state: decisions.register(state, subject, Proposal(Schema(text)), normalize=False)


async def test_it_takes_over_once() -> None:
    registry, log = instance(HERE)
    assert (await registry.write(register("s", '"int"'), REQUEST)).id == 1
    assert (await registry.write(register("t", '"long"'), REQUEST)).id == 2
    assert [type(key).__name__ for key, _ in log.entries] == ["NoopKey", "SchemaKey", "SchemaKey"]
    assert registry._election.confirmed == 1


async def test_what_was_given_up_while_it_was_read_back_counts() -> None:
    registry, log = instance(HERE)
    await registry.write(register("s", '"int"'), REQUEST)
    log.reading = False
    assert await refused(registry, register("s", '"long"')) == 50002
    assert await refused(registry, register("t", '"float"')) == 50002
    assert len(log.entries) == 3, "nothing is decided before the last write has been read"
    log.reading = True
    await log.catch_up()
    assert (await registry.write(register("t", '"float"'), REQUEST)).id == 3


async def test_a_take_over_that_was_not_read_back_is_none() -> None:
    registry, log = instance(HERE)
    log.reading = False
    assert await refused(registry, register("s", '"int"')) == 50002
    assert not log.ready
    log.reading = True
    assert (await registry.write(register("s", '"int"'), REQUEST)).id == 1


async def test_an_offset_that_was_not_told() -> None:
    registry, log = instance(HERE)
    log.tells_offsets = False
    assert (await registry.write(register("s", '"int"'), REQUEST)).id == 1
    log.reading = False
    for _ in range(2):
        assert await refused(registry, register("s", '"long"')) == 50002
    assert not log.ready
    log.reading = True
    assert (await registry.write(register("s", '"long"'), REQUEST)).id == 2


async def test_a_writer_that_was_refused_takes_over_anew() -> None:
    registry, log = instance(HERE)
    await registry.write(register("s", '"int"'), REQUEST)
    log.failures = [NotTheWriter()]
    assert (await registry.write(register("t", '"long"'), REQUEST)).id == 2
    assert registry._election.confirmed == 2


@pytest.mark.parametrize(
    ("failure", "code"), [(TooLarge(), 42209), (NetworkException("gone"), 50001)]
)
async def test_failures_have_their_codes(failure: Exception, code: int) -> None:
    registry, log = instance(HERE)
    await registry.write(register("s", '"int"'), REQUEST)
    log.failures = [failure]
    with pytest.raises(RegistryError) as told:
        await registry.write(register("t", '"long"'), REQUEST)
    assert told.value.code == code


async def test_without_a_leader_it_waits_and_says_so() -> None:
    registry, _ = instance(None)
    assert await refused(registry, register("s", '"int"')) == 50004


async def test_a_leader_that_comes_is_enough() -> None:
    registry, _ = instance(None)
    writing = asyncio.ensure_future(registry.write(register("s", '"int"'), REQUEST))
    await asyncio.sleep(0)
    registry._election.leader = HERE
    assert (await writing).id == 1


async def test_what_was_handed_on_goes_no_further() -> None:
    registry, _ = instance(ELSEWHERE)
    with pytest.raises(RegistryError) as told:
        await registry.write(
            register("s", '"int"'), Forwarded("POST", "/subjects/s/versions", b"{}", True)
        )
    assert told.value.code == 50004


async def test_handing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [
        NobodyThere("refused", may_have_arrived=False),
        NobodyThere("reset", may_have_arrived=True),
        Answer(500, b'{"error_code":50004,"message":"Leader not known."}'),
        Answer(200, b'{"id":5}'),
    ]

    async def send(url: str, request: Forwarded, timeout_s: float, tls: object) -> Answer:
        assert url == ELSEWHERE.url
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(module, "send", send)
    registry, _ = instance(ELSEWHERE)
    assert await registry.write(register("s", '"int"'), REQUEST) == Answer(200, b'{"id":5}')
    assert answers == []


async def test_a_delete_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send(url: str, request: Forwarded, timeout_s: float, tls: object) -> Answer:
        raise NobodyThere("reset", may_have_arrived=True)

    monkeypatch.setattr(module, "send", send)
    registry, _ = instance(ELSEWHERE)
    with pytest.raises(RegistryError) as told:
        await registry.write(
            lambda state: decisions.delete_subject(state, "s", permanent=False),
            Forwarded("DELETE", "/subjects/s", b"", False),
        )
    assert told.value.code == 50003
