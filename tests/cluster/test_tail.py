"""Following the metadata log: what is prepared, what is shown, and in which order."""

import asyncio

import pytest

from tidelog.cluster import metadata
from tidelog.cluster.image import Delta, Image
from tidelog.cluster.metadata import BrokerRecord
from tidelog.cluster.tail import Tail
from tidelog.metastore.memory import MemoryMetastore, MemoryStore
from tidelog.testing.manual_clock import ManualClock


@pytest.fixture
async def metastore():
    made = MemoryMetastore(MemoryStore(), ManualClock())
    await made.open()
    yield made
    await made.close()


async def add_broker(metastore: MemoryMetastore, broker_id: int) -> None:
    session = await metastore.open_session(broker_id, 10_000)
    epoch = await metastore.lead(session)
    await metastore.append(epoch, metadata.encode([BrokerRecord(broker_id, (), None)]))


async def test_an_image_is_shown_when_it_is_prepared(metastore):
    tail, steps, go = Tail(metastore), [], asyncio.Event()

    async def prepare(image: Image, delta: Delta) -> None:
        steps.append(("prepare", sorted(image.brokers), sorted(tail.image.brokers)))
        await go.wait()

    tail.prepare(prepare)
    tail.subscribe(lambda image, delta: steps.append(("show", sorted(delta.brokers))))
    await add_broker(metastore, 1)
    waiting = asyncio.create_task(tail.catch_up())
    while not steps:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert not tail.image.brokers
    go.set()
    await waiting
    assert steps == [("prepare", [1], []), ("show", [1])]


async def test_a_preparation_that_was_cut_short_is_done_again(metastore):
    tail, begun, shown = Tail(metastore), [], []

    async def prepare(image: Image, delta: Delta) -> None:
        begun.append(delta)
        if len(begun) == 1:
            await asyncio.Future()

    tail.prepare(prepare)
    tail.subscribe(lambda image, delta: shown.append(delta))
    await add_broker(metastore, 1)
    first = asyncio.create_task(tail.catch_up())
    while not begun:  # noqa: ASYNC110
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert not shown
    await tail.catch_up()
    assert len(begun) == 2
    assert len(shown) == 1
