"""Members in processes of their own: killed, stopped, and many at once."""

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pytest
from rigs import gone
from store_member import Member

from tidelog.clock import SystemClock
from tidelog.metastore.address import open_metastore
from tidelog.metastore.contract import Entry, Fenced, MemberTaken, Metastore, Session, SessionLost

SHORT_MS = 3_000
LONG_MS = 600_000

Start = Callable[[], Awaitable[Member]]


@pytest.fixture(params=["sqlite", "zookeeper"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'metadata.db'}"
    return f"{request.getfixturevalue('zookeeper').address}/{secrets.token_hex(4)}"


@pytest.fixture
async def start(address: str) -> AsyncIterator[Start]:
    """Starts one more member."""
    async with AsyncExitStack() as stack:

        async def member() -> Member:
            member = await Member.start(address)
            stack.push_async_callback(member.kill)
            return member

        yield member


@pytest.fixture
async def observer(address: str) -> AsyncIterator[Metastore]:
    async with open_metastore(address, SystemClock()) as store:
        yield store


async def test_a_killed_member_loses_its_session(start, observer, address):
    member = await start()
    # The kernel tells of a death on the same machine at once; over the network only silence does.
    timeout_ms = LONG_MS if address.startswith("sqlite") else SHORT_MS
    session = Session(*await member.call("open_session", 1, timeout_ms))
    assert await member.call("lead", 1) == 1
    with pytest.raises(MemberTaken):
        await observer.open_session(1, LONG_MS)
    # Nothing has to be polled for.
    observer.poll_seconds = None
    tick = await observer.tick()
    assert len(tick.sessions) == 1
    await member.kill()
    await gone(observer, session)
    assert await observer.controller() is None
    again = await observer.open_session(1, LONG_MS)
    assert await observer.lead(again) == 2


async def test_a_stopped_member_loses_its_session_and_is_fenced(start, observer):
    member = await start()
    session = Session(*await member.call("open_session", 1, SHORT_MS))
    assert await member.call("lead", 1) == 1
    assert await member.call("append", 1, "before") == 1
    deadline = await member.call("heartbeat", 1)
    member.signal(SIGSTOP)
    await gone(observer, session)
    assert SystemClock().monotonic() > deadline
    successor = await observer.open_session(2, LONG_MS)
    assert await observer.lead(successor) == 2
    assert await observer.append(2, b"after") == 2
    member.signal(SIGCONT)
    with pytest.raises(Fenced):
        await member.call("append", 1, "late")
    with pytest.raises(SessionLost):
        await member.call("heartbeat", 1)
    with pytest.raises(SessionLost):
        await member.call("lead", 1)
    assert await observer.read(0) == [Entry(1, b"before"), Entry(2, b"after")]
    await member.call("open_session", 1, LONG_MS)
    assert await member.call("lead", 1) is None


async def test_what_one_process_appends_wakes_the_others(start, observer):
    member = await start()
    await member.call("open_session", 1, LONG_MS)
    await member.call("lead", 1)
    observer.poll_seconds = None
    for number in range(1, 20):
        tick = await observer.tick()
        waiting = asyncio.create_task(observer.wait(tick))
        assert await member.call("append", 1, f"{number}") == number
        async with asyncio.timeout(60):
            assert (await waiting).log_end == number


async def test_many_processes_lead_in_turn_and_nothing_is_lost_or_doubled(start, observer):
    members = [await start() for _ in range(4)]
    calls = (each.call("compete", number, 4, 5) for number, each in enumerate(members))
    written = sorted(itertools.chain(*await asyncio.gather(*calls)))
    entries = await observer.read(0)
    assert [[each.number, each.data.decode()] for each in entries] == written
    assert [number for number, _ in written] == list(range(1, 81))
    epochs = [int(text.split("/")[-1]) for _, text in written]
    assert epochs == sorted(epochs)
    assert sorted(set(epochs)) == list(range(1, 17))
