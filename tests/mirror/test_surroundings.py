"""What a mirror does with clusters that are not as it would like them."""

import asyncio
import json
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.mirror.conftest import Mirroring, place, read, until
from tidelog import aio
from tidelog.client.admin_security import Acl, AclFilter
from tidelog.client.message import Message
from tidelog.errors import SecurityDisabled, SettingsError
from tidelog.mirror import Mirror, MirrorOptions
from tidelog.mirror.topics import TopicKeeper
from tidelog.testing.local_broker import LocalBroker


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_side_that_is_down_is_told_and_waited_for(topic: str, side: str) -> None:
    with LocalBroker() as live, LocalBroker() as offline:
        async with aio.Producer(bootstrap_servers=live.bootstrap) as producer:
            await producer.send(topic, b"1")
        dead = live if side == "source" else offline
        dead.kill()
        options = MirrorOptions(
            sources=(f"live={live.bootstrap}",), target=offline.bootstrap, include=topic
        )
        mirror = Mirror(options)
        task = asyncio.ensure_future(mirror.run())
        status = mirror.lanes[0].status

        async def told() -> bool:
            return side in status.down and f"{side} is down" in mirror.lines()[0]

        await until(told)
        assert list(mirror.metrics()["live"]["down"]) == [side]
        await asyncio.to_thread(dead.start)
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


async def test_what_compaction_has_left_arrives_and_nothing_else(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring
) -> None:
    """Whole batches that are gone, and gaps within those that are left."""
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": "2000",
        "min.cleanable.dirty.ratio": "0.01",
    }
    async with aio.Admin(bootstrap_servers=live.bootstrap) as admin:
        await admin.create_topics({topic: 1}, configs=configs)
    async with aio.Producer(bootstrap_servers=live.bootstrap, batch_size=900) as producer:
        for number in range(1_000):
            # Every seventh stays, the others are written again and again.
            key = b"k%d" % (number % 7) if number % 7 else b"once %d" % number
            await producer.send(topic, b"%d" % number, key=key)

    async def compacted() -> bool:
        return 0 < len(await _whole(live.bootstrap, topic)) < 500

    await until(compacted)
    async with mirroring() as mirror:
        await until(lambda: _position(mirror, topic, 1_000))
        status = mirror.metrics()["live"]
    here = await _whole(live.bootstrap, topic)
    latest = {m.key: m.value for m in here}
    assert len(latest) == 143 + 6
    there = await _whole(offline.bootstrap, topic)
    assert {m.key: m.value for m in there} == latest
    assert len(there) < 1_000
    assert status["rebuilt_batches"] > 0
    assert status["partitions"][f"{topic}-0"]["same_offsets"] is False


async def _whole(bootstrap: str, topic: str) -> list[Message]:
    """Everything that partition 0 holds now."""
    where = place(topic)
    async with aio.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([where])
        end = (await consumer.find_offsets({where: -1}))[where].offset
        found: list[Message] = []
        async with asyncio.timeout(60):
            while await consumer.position(*where) < end:
                found += await consumer.poll(timeout=0.5)
        return found


@pytest.mark.parametrize("limit", ["max.message.bytes", "segment.bytes"])
async def test_small_batches_are_not_put_together_beyond_what_the_topic_takes(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring, limit: str
) -> None:
    async with aio.Admin(bootstrap_servers=live.bootstrap) as admin:
        await admin.create_topics({topic: 1}, configs={limit: "700"})
    async with aio.Producer(bootstrap_servers=live.bootstrap, linger_ms=0) as producer:
        for number in range(50):
            await producer.send(topic, b"%0100d" % number)
            await producer.flush()
    async with mirroring() as mirror:
        found = await read(offline.bootstrap, topic, 50)
    assert [m.value for m in found] == [b"%0100d" % number for number in range(50)]
    assert mirror.metrics()["live"]["errors"] == 0


async def test_several_sources_come_together(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring
) -> None:
    """One of them dies meanwhile: the other goes on, and it is told which."""
    with LocalBroker(settings={"num.partitions": "2"}) as second:
        async with (
            mirroring(sources=(f"live={live.bootstrap}", f"second={second.bootstrap}")) as mirror,
            aio.Producer(bootstrap_servers=live.bootstrap) as here,
        ):
            async with aio.Producer(bootstrap_servers=second.bootstrap) as there:
                for number in range(10):
                    await here.send(topic, b"live %d" % number, partition=0)
                    await there.send(topic, b"second %d" % number, partition=0)
            await here.flush()
            both = await read(offline.bootstrap, topic, 20)
            second.kill()
            await until(lambda: _told(mirror, "second"))
            await here.send(topic, b"live 10", partition=0)
            await here.flush()
            found = await read(offline.bootstrap, topic, 21)
            assert mirror.metrics()["live"]["down"] == {}
    values = [m.value for m in both]
    for name in (b"live", b"second"):
        # Each source in its own order, whatever lies between.
        mine = [each for each in values if each.startswith(name)]
        assert mine == [b"%s %d" % (name, number) for number in range(10)]
    assert len(values) == 20
    assert found[-1].value == b"live 10"


async def _told(mirror: Mirror, source: str) -> bool:
    [lane] = [each for each in mirror.lanes if each.name == source]
    return "source" in lane.status.down


async def test_access_rules_come_along(topic: str) -> None:
    """Those for these very topics, under their new names, also those that come later."""
    rules = {"authorizer.class.name": "acls", "super.users": "User:ANONYMOUS"}
    mine = Acl("topic", topic, "User:alice", "read")
    denied = Acl("topic", topic, "User:mallory", "all", "deny", "10.0.0.1")
    others = [
        Acl("topic", topic, "User:bob", "read", pattern_type="prefixed"),
        Acl("topic", "another", "User:bob", "read"),
        Acl("group", topic, "User:bob", "read"),
    ]
    with LocalBroker(settings=rules) as live, LocalBroker(settings=rules) as offline:
        async with (
            aio.Admin(bootstrap_servers=live.bootstrap) as here,
            aio.Admin(bootstrap_servers=offline.bootstrap) as there,
        ):
            await here.create_topics({topic: 1})
            await here.create_acls([mine, *others])
            options = MirrorOptions(
                sources=(f"live={live.bootstrap}",),
                target=offline.bootstrap,
                include=topic,
                prefix="{source}.",
                copy_acls=True,
                look_interval_s=0.2,
            )
            mirror = Mirror(options)
            task = asyncio.ensure_future(mirror.run())

            async def copied(expected: int) -> bool:
                return len(await there.describe_acls()) >= expected

            await until(lambda: copied(1))
            await here.create_acls([denied])
            await until(lambda: copied(2))
            mirror.stop()
            await task
            found = await there.describe_acls()
    renamed = [replace(each, resource_name=f"live.{topic}") for each in (mine, denied)]
    assert sorted(found, key=str) == sorted(renamed, key=str)


async def test_a_side_without_access_rules_does_not_stop_a_mirror(
    live: LocalBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As Apache Kafka answers that has no authorizer; our brokers keep rules in any case."""

    class Bare(aio.Admin):
        async def describe_acls(self, which: AclFilter | None = None) -> list[Acl]:
            raise SecurityDisabled("No Authorizer is configured.")

    async with Bare(bootstrap_servers=live.bootstrap) as admin:
        await admin.create_topics({topic: 1})
        keeper = TopicKeeper(admin, admin, lambda name: f"copy.{name}", copy_acls=True)
        for _ in range(2):
            await keeper.ensure([topic])
        assert f"copy.{topic}" in await admin.list_topics()
    told = [r.getMessage() for r in caplog.records if "access rules" in r.getMessage()]
    assert told == ["access rules are not copied, a side has none: No Authorizer is configured."]


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
