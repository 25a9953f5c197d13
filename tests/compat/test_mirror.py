"""The mirror with Apache Kafka on either side: records, settings, groups, in transactions and without."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_kafka import ApacheKafka

from tidelog import aio
from tidelog.client.message import Message
from tidelog.mirror import Mirror, MirrorOptions
from tidelog.names import TopicPartition
from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.compat

COUNT = 500


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    kafka = ApacheKafka(Path(tmp_path_factory.mktemp("apache")))
    with kafka.running():
        yield kafka.bootstrap


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with LocalBroker(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker.bootstrap


async def read(bootstrap: str, topic: str, count: int) -> list[Message]:
    found: list[Message] = []
    async with aio.Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        await consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        async with asyncio.timeout(120):
            while len(found) < count:
                found += await consumer.poll(timeout=1.0)
    return sorted(found, key=lambda each: (each.partition, each.offset))


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly-once"])
@pytest.mark.parametrize("to_apache", [True, False], ids=["to-kafka", "from-kafka"])
async def test_either_side(apache: str, ours: str, to_apache: bool, exactly_once: bool) -> None:
    source, target = (ours, apache) if to_apache else (apache, ours)
    topic = f"orders-{to_apache}-{exactly_once}"
    group = f"group-{topic}"
    async with aio.Admin(bootstrap_servers=source) as admin:
        await admin.create_topics({topic: 2}, configs={"retention.ms": "777000000"})
    async with aio.Producer(
        bootstrap_servers=source, compression_type="zstd", batch_size=4_000
    ) as producer:
        for number in range(COUNT):
            await producer.send(
                topic, b"%d" % number * 50, key=b"%d" % number, headers={"n": b"%d" % number}
            )
    here = await read(source, topic, COUNT)
    options = MirrorOptions(
        sources=(f"here={source}",),
        target=target,
        include=topic,
        group=f"mirror-{topic}",
        exactly_once=exactly_once,
        groups=group,
        look_interval_s=0.5,
    )
    mirror = Mirror(options)
    task = asyncio.ensure_future(mirror.run())
    try:
        async with asyncio.timeout(120):
            while mirror.lanes[0].status.records < COUNT:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            there = await read(target, topic, COUNT)
            ends = {TopicPartition(topic, p): sum(m.partition == p for m in here) for p in (0, 1)}
            async with aio.Admin(bootstrap_servers=source) as admin:
                await admin.alter_group_offsets(group, ends)
            while set(mirror.lanes[0].status.translated.get(group, {})) != set(ends):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        mirror.stop()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert [each._replace(offset=0) for each in there] == [each._replace(offset=0) for each in here]
    assert mirror.metrics()["here"]["errors"] == 0, mirror.metrics()
    async with aio.Admin(bootstrap_servers=target) as admin:
        assert (await admin.describe_topic_configs(topic))["retention.ms"].value == "777000000"
        moved = await admin.group_offsets(group)
    assert {tp: each.offset for tp, each in moved.items()} == ends
