"""Who holds the loop is counted, and the longest is named, once a minute."""

import asyncio
import logging

import pytest

from tidelog.network.peer import Address, Peer
from tidelog.network.watchdog import Watchdog
from tidelog.protocol.frame import encode_request
from tidelog.protocol.messages.metadata import MetadataRequest

PEER = Peer(Address("192.0.2.1", 5000), Address("127.0.0.1", 9092), "PLAINTEXT")


class Time:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def test_a_read_that_holds_the_loop_is_counted_and_named(rig_of, caplog):
    now = Time()

    def serve(peer, frame):
        now.seconds += 0.3
        return b""

    rig = rig_of(serve)
    rig.hub.watchdog.now = now
    sock = rig.raw()
    frame = bytes(encode_request(MetadataRequest(), 12, 1, "mall\nory"))
    with caplog.at_level(logging.WARNING, "tidelog.network.watchdog"):
        sock.sendall(frame)
        await rig.settle(lambda: bool(rig.hub.watchdog.held.count))
    sock.close()
    assert rig.hub.watchdog.held.count == 1
    assert rig.hub.watchdog.held.total_s == pytest.approx(0.3)
    (line,) = caplog.messages
    assert f"300 ms: Metadata v12 of {len(frame) - 4} bytes, client 'mall\\nory'" in line
    assert "127.0.0.1:" in line
    rig.hub.watchdog.close()


async def test_every_step_of_a_coroutine_is_measured_by_itself():
    now = Time()
    watchdog = Watchdog(now)

    async def work() -> str:
        now.seconds += 0.03
        await asyncio.sleep(0)
        now.seconds += 0.03
        await asyncio.sleep(0)
        now.seconds += 0.07
        return "done"

    assert await watchdog.watched(work(), lambda: "work") == "done"
    assert await asyncio.create_task(watchdog.watched(work(), lambda: "work")) == "done"
    assert watchdog.held.count == 2
    watchdog.close()


async def test_one_line_a_minute_names_the_longest(caplog):
    now = Time()
    watchdog = Watchdog(now)
    with caplog.at_level(logging.WARNING, "tidelog.network.watchdog"):
        for seconds in (0.1, 0.4, 0.2):
            watchdog.note(seconds, f"work of {seconds}")
        assert len(caplog.messages) == 1
        now.seconds = 61
        watchdog.note(0.15, "work of 0.15")
    assert len(caplog.messages) == 2
    assert "work of 0.1;" in caplog.messages[0]
    assert "work of 0.4;" in caplog.messages[1], "the longest of those nobody was told of"
    watchdog.close()


async def test_a_cancelled_coroutine_ends():
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    watchdog = Watchdog(Time())
    task = asyncio.create_task(watchdog.watched(work(), lambda: "work"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]

    never = asyncio.create_task(watchdog.watched(work(), lambda: "work"))
    never.cancel()
    with pytest.raises(asyncio.CancelledError):
        await never
