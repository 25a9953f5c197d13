"""Two clusters of one broker each, and a mirror between them on the test's own loop."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tidelog import aio
from tidelog.client.message import Message
from tidelog.mirror import Mirror, MirrorOptions
from tidelog.names import TopicPartition
from tidelog.testing.local_broker import LocalBroker

_numbers = itertools.count()

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "2",
    "log.cleaner.backoff.ms": "50",
}


@pytest.fixture(scope="module")
def live() -> Iterator[LocalBroker]:
    with LocalBroker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="module")
def offline() -> Iterator[LocalBroker]:
    with LocalBroker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"orders{next(_numbers)}"


@pytest.fixture
def mirroring(live: LocalBroker, offline: LocalBroker, topic: str) -> "Mirroring":
    """`async with mirroring(…) as mirror:` a mirror of the test's topic that runs meanwhile."""

    @asynccontextmanager
    async def run(**options: Any) -> AsyncIterator[Mirror]:
        given: dict[str, Any] = {
            "sources": (f"live={live.bootstrap}",),
            "target": offline.bootstrap,
            "include": topic,
            "group": f"mirror-{topic}",
            "look_interval_s": 0.2,
            "commit_interval_s": 0.1,
            **options,
        }
        mirror = Mirror(MirrorOptions(**given))
        task = asyncio.ensure_future(mirror.run())
        try:
            yield mirror
        finally:
            mirror.stop()
            await task

    return run


Mirroring = Callable[..., Any]


async def read(
    bootstrap: str, topic: str, count: int, *, isolation: str = "read_committed"
) -> list[Message]:
    """The first `count` messages of the topic, in the order of each partition; waits for them."""
    async with aio.Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level=isolation,
        metadata_max_age_ms=200,
        fetch_max_wait_ms=100,
    ) as consumer:
        await consumer.subscribe(pattern=topic.replace(".", r"\."))
        found: list[Message] = []
        async with asyncio.timeout(60):
            while len(found) < count:
                found += await consumer.poll(timeout=0.5)
        return sorted(found, key=lambda each: (each.partition, each.offset))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - it is about another process
            await asyncio.sleep(0.02)


def place(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)
