"""A mirror between two real brokers: everything arrives as it was, once where that was asked for."""

import asyncio

import pytest

from tests.mirror.conftest import Mirroring, place, read, until
from tidelog import aio
from tidelog.errors import SettingsError
from tidelog.mirror import Mirror, MirrorOptions
from tidelog.testing.local_broker import LocalBroker


def plain(messages):
    return [(m.partition, m.timestamp, m.key, m.value, tuple(m.headers)) for m in messages]


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly-once"])
async def test_messages_arrive_as_they_were(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring, exactly_once: bool
) -> None:
    async with aio.Admin(bootstrap_servers=live.bootstrap) as admin:
        await admin.create_topics({topic: 3}, configs={"retention.ms": "86400000"})
    async with aio.Producer(bootstrap_servers=live.bootstrap, compression_type="lz4") as producer:
        for number in range(300):
            await producer.send(
                topic,
                b"v%d" % number,
                key=b"k%d" % number,
                headers={"h": b"%d" % number},
                timestamp=1_700_000_000_000 + number,
            )
    async with mirroring(exactly_once=exactly_once) as mirror:
        there = await read(offline.bootstrap, topic, 300)
        here = await read(live.bootstrap, topic, 300)
        assert plain(there) == plain(here)
    assert mirror.metrics()["live"]["records"] == 300
    assert mirror.metrics()["live"]["errors"] == 0
    async with aio.Admin(bootstrap_servers=offline.bootstrap) as admin:
        described = await admin.describe_topics([topic])
        assert len(described[topic].partitions) == 3
        assert (await admin.describe_topic_configs(topic))["retention.ms"].value == "86400000"


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly-once"])
async def test_a_mirror_that_starts_again_goes_on_where_it_was(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring, exactly_once: bool
) -> None:
    async with aio.Producer(bootstrap_servers=live.bootstrap) as producer:
        for number in range(3):
            await producer.send(topic, b"%d" % number, partition=0)
            await producer.flush()
            async with mirroring(exactly_once=exactly_once):
                await read(offline.bootstrap, topic, number + 1)
    async with mirroring(exactly_once=exactly_once) as mirror:
        await until(lambda: _caught_up(mirror, topic))
    assert [m.value for m in await read(offline.bootstrap, topic, 3)] == [b"0", b"1", b"2"]


async def _caught_up(mirror, topic: str) -> bool:
    return place(topic) in mirror.lanes[0].status.partitions


async def test_topics_and_partitions_that_come_later_are_picked_up(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring
) -> None:
    async with (
        mirroring(include=f"{topic}.*"),
        aio.Producer(bootstrap_servers=live.bootstrap) as producer,
    ):
        await producer.send(topic, b"first", partition=0)
        await producer.flush()
        await read(offline.bootstrap, topic, 1)
        await producer.send(topic + ".new", b"second")
        await producer.flush()
        await read(offline.bootstrap, topic + ".new", 1)
        async with aio.Admin(bootstrap_servers=live.bootstrap) as admin:
            await admin.add_partitions(topic, 4)
        await producer.cluster.refresh([topic])
        await producer.send(topic, b"third", partition=3)
        await producer.flush()
        found = await read(offline.bootstrap, topic, 2)
    assert [(m.partition, m.value) for m in found] == [(0, b"first"), (3, b"third")]


async def test_a_prefix_keeps_sources_apart(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring
) -> None:
    async with aio.Producer(bootstrap_servers=live.bootstrap) as producer:
        await producer.send(topic, b"x")
    for _ in range(2):
        async with mirroring(prefix="{source}."):
            found = await read(offline.bootstrap, f"live.{topic}", 1)
    assert [m.value for m in found] == [b"x"]


async def test_what_was_aborted_stays_behind(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring
) -> None:
    async with aio.Producer(bootstrap_servers=live.bootstrap, transactional_id=topic) as producer:
        for number in range(6):
            await producer.begin_transaction()
            await producer.send(topic, b"%d" % number, partition=0)
            await producer.flush()
            await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
    async with mirroring():
        found = await read(offline.bootstrap, topic, 3, isolation="read_uncommitted")
    assert [m.value for m in found] == [b"0", b"2", b"4"]


async def test_the_source_offset_is_kept_in_a_header(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring
) -> None:
    async with aio.Producer(bootstrap_servers=live.bootstrap) as producer:
        for number in range(5):
            await producer.send(topic, b"%d" % number, partition=1)
    async with mirroring(offset_header=True):
        found = await read(offline.bootstrap, topic, 5)
    assert [dict(m.headers)["mirror.source.offset"] for m in found] == [
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
    ]


async def test_two_mirrors_share_the_work_and_one_takes_over(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring
) -> None:
    async with aio.Admin(bootstrap_servers=live.bootstrap) as admin:
        await admin.create_topics({topic: 4})
    async with (
        mirroring(exactly_once=True) as first,
        aio.Producer(bootstrap_servers=live.bootstrap) as producer,
    ):
        async with mirroring(exactly_once=True) as second:

            async def shared() -> bool:
                return [len(m.lanes[0].status.partitions) for m in (first, second)] == [2, 2]

            await until(shared)
            for number in range(400):
                await producer.send(topic, b"%d" % number, partition=number % 4)
            await producer.flush()
            await read(offline.bootstrap, topic, 400)
        for number in range(400, 800):
            await producer.send(topic, b"%d" % number, partition=number % 4)
        await producer.flush()
        found = await read(offline.bootstrap, topic, 800)
    assert sorted(int(m.value) for m in found) == list(range(800))
    assert [m.metrics()["live"]["last_error"] for m in (first, second)] == [None, None]


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly-once"])
async def test_a_group_can_move(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring, exactly_once: bool
) -> None:
    """No loss, and no more repeats than were passed on between two entries of the offset map."""
    group = f"billing-{topic}"
    config = {
        "bootstrap_servers": live.bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
    }
    async with (
        mirroring(groups="billing-.*", exactly_once=exactly_once) as mirror,
        aio.Producer(bootstrap_servers=live.bootstrap) as producer,
    ):
        for number in range(20):
            await producer.send(topic, b"%d" % number, partition=0)
        await producer.flush()
        await read(offline.bootstrap, topic, 20)
        async with aio.Admin(bootstrap_servers=live.bootstrap) as admin:
            await admin.alter_group_offsets(group, {place(topic): 20})
        await until(lambda: _is(mirror, group, topic))
        for number in range(20, 25):
            await producer.send(topic, b"%d" % number, partition=0)
        await producer.flush()
        await read(offline.bootstrap, topic, 25)
    async with aio.Consumer({**_kafka(config), "bootstrap.servers": offline.bootstrap}) as consumer:
        await consumer.subscribe(topic)
        found: list[bytes] = []
        async with asyncio.timeout(30):
            while len(found) < 5:
                found += [m.value for m in await consumer.poll(timeout=0.5)]
    assert found == [b"20", b"21", b"22", b"23", b"24"]


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly-once"])
async def test_a_group_that_moves_loses_nothing_and_repeats_little(
    live: LocalBroker, offline: LocalBroker, topic: str, mirroring: Mirroring, exactly_once: bool
) -> None:
    """A quiet partition is translated to the record; within what is passed on at once, to an entry before it."""
    group = f"billing-{topic}"
    where = place(topic)
    async with (
        mirroring(groups="billing-.*", exactly_once=exactly_once) as mirror,
        aio.Producer(bootstrap_servers=live.bootstrap) as producer,
        aio.Admin(bootstrap_servers=live.bootstrap) as admin,
    ):

        async def pass_on(numbers: range) -> None:
            for number in numbers:
                await producer.send(topic, b"%d" % number, partition=0)
            await producer.flush()
            await read(offline.bootstrap, topic, numbers.stop)

        async def translated(offset: int) -> bool:
            return mirror.lanes[0].status.translated.get(group, {}).get(where, -1) >= offset

        await admin.create_topics({topic: 1})
        for start in range(0, 100, 25):  # so soon after one another that not each gets an entry
            await pass_on(range(start, start + 25))
        await admin.alter_group_offsets(group, {where: 100})
        # In transactions 100 records are followed by at least one marker.
        await until(lambda: translated(100))
        await pass_on(range(100, 200))
        await admin.alter_group_offsets(group, {where: 150})
    async with aio.Consumer(
        bootstrap_servers=offline.bootstrap,
        group_id=group,
        isolation_level="read_committed",
        auto_offset_reset="none",
    ) as consumer:
        await consumer.subscribe(topic)
        found: list[int] = []
        async with asyncio.timeout(60):
            while not found or found[-1] < 199:
                found += [int(m.value) for m in await consumer.poll(timeout=0.5) if m.value]
    assert 100 <= found[0] <= 150
    assert found == list(range(found[0], 200))


def _kafka(config):
    return {name.replace("_", "."): value for name, value in config.items()}


async def _is(mirror, group: str, topic: str) -> bool:
    return place(topic) in mirror.lanes[0].status.translated.get(group, {})


async def test_a_cluster_is_not_copied_into_itself(
    live: LocalBroker, offline: LocalBroker, topic: str
) -> None:
    """It would never end: what is copied is there to be copied again."""
    async with aio.Producer(bootstrap_servers=live.bootstrap) as producer:
        await producer.send(topic, b"once")
    # The same broker under another name.
    source = live.bootstrap.replace("127.0.0.1", "localhost")
    sources = (f"other={offline.bootstrap}", f"live={source}")
    mirror = Mirror(MirrorOptions(sources=sources, target=live.bootstrap, include=topic))
    with pytest.raises(SettingsError, match=r"are the same cluster .* name another target"):
        await asyncio.wait_for(mirror.run(), 60)
    assert [each.value for each in await read(live.bootstrap, topic, 1)] == [b"once"]
    async with aio.Admin(bootstrap_servers=live.bootstrap) as admin:
        offsets = await admin.watermarks(topic)
    assert sum(end - start for start, end in offsets.values()) == 1
