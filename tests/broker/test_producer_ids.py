"""Blocks of producer ids, and what producers hear while none can be had."""

import asyncio
from typing import Any, cast

import pytest

from tidelog.broker.producer_ids import ProducerIds
from tidelog.errors import (
    CoordinatorLoadInProgress,
    KafkaError,
    NotController,
    RequestTimedOut,
    StaleBrokerEpoch,
)


class Controller:
    def __init__(self) -> None:
        self.asked = 0
        self.fail: KafkaError | None = None

    async def allocate_producer_ids(self) -> range:
        self.asked += 1
        first = 2 * self.asked
        await asyncio.sleep(0)
        if self.fail is not None:
            raise self.fail
        return range(first, first + 2)


@pytest.fixture
def controller() -> Controller:
    return Controller()


async def test_an_id_is_given_once_and_blocks_are_shared(controller):
    ids = ProducerIds(cast(Any, controller))
    given = await asyncio.gather(*(ids.next() for _ in range(5)))
    assert sorted(given) == [2, 3, 4, 5, 6]
    assert controller.asked == 3


@pytest.mark.parametrize("error", [StaleBrokerEpoch(), NotController(), RequestTimedOut()])
async def test_all_who_wait_hear_at_once_what_they_understand(controller, error):
    """A broker that stood still has an old epoch for a moment: to Java's producer that error would be the end."""
    ids = ProducerIds(cast(Any, controller))
    controller.fail = error
    told = await asyncio.gather(*(ids.next() for _ in range(5)), return_exceptions=True)
    assert {type(each) for each in told} == {CoordinatorLoadInProgress}
    assert controller.asked == 1
    controller.fail = None
    assert await ids.next() == 4


async def test_one_that_gives_up_leaves_the_others_waiting(controller):
    ids = ProducerIds(cast(Any, controller))
    first, second = (asyncio.ensure_future(ids.next()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 2
