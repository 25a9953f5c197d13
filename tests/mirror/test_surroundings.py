"""What a mirror does with clusters that are not as it would like them."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest

from tests.mirror.conftest import Mirroring, place, read, until
from tidelog import aio
from tidelog.errors import SettingsError
from tidelog.mirror import Mirror, MirrorOptions
from tidelog.testing.local_broker import LocalBroker


async def test_a_side_that_is_down_is_told_and_waited_for(topic: str) -> None:
    with LocalBroker() as live, LocalBroker() as offline:
        async with aio.Producer(bootstrap_servers=live.bootstrap) as producer:
            await producer.send(topic, b"1")
        offline.kill()
        options = MirrorOptions(
            sources=(f"live={live.bootstrap}",), target=offline.bootstrap, include=topic
        )
        mirror = Mirror(options)
        task = asyncio.ensure_future(mirror.run())
        status = mirror.lanes[0].status

        async def told() -> bool:
            return "target" in status.down and "target is down" in mirror.lines()[0]

        await until(told)
        await asyncio.to_thread(offline.start)
        assert [m.value for m in await read(offline.bootstrap, topic, 1)] == [b"1"]
        await until(lambda: _none_down(mirror))
        mirror.stop()
        await task


async def _none_down(mirror: Mirror) -> bool:
    return not mirror.lanes[0].status.down


async def test_compacted_topics_arrive_with_their_gaps_closed(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring
) -> None:
    """Deleted records are gaps as well: the first offset is not 0."""
    async with aio.Admin(bootstrap_servers=live.bootstrap) as admin:
        await admin.create_topics({topic: 1}, configs={"cleanup.policy": "compact,delete"})
        async with aio.Producer(bootstrap_servers=live.bootstrap) as producer:
            for number in range(10):
                await producer.send(topic, b"%d" % number, key=b"k%d" % number)
        await admin.delete_records({place(topic): 4})
    async with mirroring() as mirror:
        found = await read(offline.bootstrap, topic, 6)
        await until(lambda: _position(mirror, topic, 10))
        assert mirror.metrics()["live"]["partitions"][f"{topic}-0"]["same_offsets"] is False
    assert [(m.offset, m.value) for m in found] == [(n - 4, b"%d" % n) for n in range(4, 10)]


async def _position(mirror: Mirror, topic: str, offset: int) -> bool:
    status = mirror.lanes[0].status.partitions.get(place(topic))
    return status is not None and status.position == offset


async def test_offsets_are_the_same_in_an_empty_target(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring
) -> None:
    async with aio.Producer(bootstrap_servers=live.bootstrap) as producer:
        for number in range(50):
            await producer.send(topic, b"%d" % number, partition=0)
    async with mirroring() as mirror:
        found = await read(offline.bootstrap, topic, 50)
        await until(lambda: _position(mirror, topic, 50))
        assert mirror.metrics()["live"]["partitions"][f"{topic}-0"]["same_offsets"] is True
    assert [(m.offset, m.value) for m in found] == [(n, b"%d" % n) for n in range(50)]


async def test_the_command_mirrors_until_it_is_told_to_stop(
    live: LocalBroker, offline: LocalBroker, topic: str
) -> None:
    async with aio.Producer(bootstrap_servers=live.bootstrap) as producer:
        await producer.send(topic, b"1")
    command = [sys.executable, "-m", "tidelog", "mirror", "--from", f"live={live.bootstrap}"]
    command += ["--to", offline.bootstrap, "--include", topic, "--json", "--group", topic]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: ASYNC220
    try:
        await read(offline.bootstrap, topic, 1)
    finally:
        child.send_signal(signal.SIGTERM)
        out, err = await asyncio.to_thread(child.communicate)
    assert (child.returncode, err) == (0, "")
    assert json.loads(out.splitlines()[-1])["sources"]["live"]["records"] == 1


@pytest.mark.parametrize(
    "options",
    [{"sources": ()}, {"include": "("}, {"sources": ("a=h:1", "a=h:2")}],
    ids=["no source", "no pattern", "one name twice"],
)
def test_what_makes_no_sense_is_refused(options) -> None:
    with pytest.raises(SettingsError):
        MirrorOptions(**{"sources": ("h:1",), "target": "h:2", **options})
