"""Topics that are deleted, and created again, under a running consumer."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tidelog import Admin, Consumer, Producer, TopicPartition, aio
from tidelog.errors import OffsetOutOfRange, UnknownTopicOrPartition

from .test_contract import committed, until

Names = Callable[[str], str]

WAYS: dict[str, dict[str, Any]] = {
    "assigned": {},
    "no group": {},
    "classic": {"group_id": "g"},
    "consumer": {"group_id": "g", "group_protocol": "consumer"},
}


async def read(consumer: aio.Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += [each.value for each in await consumer.poll(1.0)]
    return found


@pytest.mark.parametrize("way", WAYS)
async def test_a_topic_that_is_created_again_is_read_on(
    way: str, bootstrap: str, unique: Names
) -> None:
    """All of it, also when the new one is longer than the old one was, and with reset=latest."""
    topic = unique("again")
    options = {
        **WAYS[way],
        "bootstrap_servers": bootstrap,
        "metadata_max_age_ms": 500,
        "auto_commit_interval_ms": 50,
    }
    if "group_id" in options:
        options["group_id"] = unique("group")
    async with (
        aio.Admin(bootstrap_servers=bootstrap) as admin,
        aio.Producer(bootstrap_servers=bootstrap) as producer,
        aio.Consumer(**options) as consumer,
    ):
        await admin.create_topics({topic: 1})
        if way == "assigned":
            await consumer.assign([(topic, 0)])
        else:
            await consumer.subscribe(topic)
        while not (positions := await consumer.positions()):
            await consumer.poll(0.05)
        assert positions == {TopicPartition(topic, 0): 0}
        await producer.send_many(topic, [b"old"] * 5)
        await producer.flush()
        assert await read(consumer, 5) == [b"old"] * 5
        for count in (9, 3):
            await admin.delete_topics([topic])
            await admin.create_topics({topic: 1})
            async with aio.Producer(bootstrap_servers=bootstrap) as another:
                await another.send_many(topic, [b"%d" % n for n in range(count)], partition=0)
                await another.flush()
            assert await read(consumer, count) == [b"%d" % n for n in range(count)]


def test_a_topic_that_is_created_again_is_an_error_without_a_reset(
    bootstrap: str, admin: Admin, unique: Names
) -> None:
    topic = unique("again")
    admin.create_topics({topic: 1})
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek(topic, 0, 0)
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send(topic, b"old")
        assert len(consumer.poll(60)) == 1
        admin.delete_topics([topic])
        admin.create_topics({topic: 1})
        for _ in range(2):
            with pytest.raises(OffsetOutOfRange, match="deleted and created again"):
                consumer.poll(20)
        consumer.seek(topic, 0, 0)
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send(topic, b"new")
        assert [each.value for each in consumer.poll(60)] == [b"new"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_deleted_topic_holds_up_neither_the_end_nor_a_rebalance(
    protocol: str, bootstrap: str, unique: Names
) -> None:
    """What can be committed is, and what cannot be is not waited for."""
    gone, stays = unique("gone"), unique("stays")
    options: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "group_id": unique("group"),
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 3_600_000,
    }
    async with (
        aio.Admin(bootstrap_servers=bootstrap) as admin,
        aio.Producer(bootstrap_servers=bootstrap) as producer,
        aio.Consumer(topics=[gone, stays], **options) as consumer,
    ):
        await admin.create_topics({gone: 1, stays: 1})
        for topic in (gone, stays):
            await producer.send_many(topic, [b"x"] * 10, partition=0)
        await producer.flush()
        await read(consumer, 20)
        await admin.delete_topics([gone])
        async with asyncio.timeout(20):
            with pytest.raises(UnknownTopicOrPartition, match="deleted"):
                await consumer.commit({TopicPartition(gone, 0): 10, TopicPartition(stays, 0): 4})
        with Admin(bootstrap_servers=bootstrap) as looking:
            assert committed(looking, options, stays) == 4
            async with asyncio.timeout(20):
                await consumer.close()
            await until(lambda: committed(looking, options, stays) == 10)
