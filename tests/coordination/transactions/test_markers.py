"""Markers on their way to the logs of a transaction."""

from typing import Any, cast

import pytest

from tidelog.coordination.runtime import EndOfTransaction
from tidelog.coordination.transactions.markers import Markers
from tidelog.errors import (
    CoordinatorLoadInProgress,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
)
from tidelog.names import CONSUMER_OFFSETS
from tidelog.testing.manual_clock import ManualClock


class Groups:
    """A group coordinator that refuses."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    async def end_transaction(self, index: int, end: EndOfTransaction) -> None:
        raise self._error


class Entries:
    def ended(self, place: tuple[str, int], producer_id: int) -> None:
        pass


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        # To the transaction's coordinator NotCoordinator means that it is deposed itself, and may stop.
        (NotCoordinator(), NotLeaderOrFollower),
        (CoordinatorLoadInProgress(), CoordinatorLoadInProgress),
    ],
)
async def test_groups_that_are_led_elsewhere_end_no_completion(
    refusal: KafkaError, told: type[KafkaError]
) -> None:
    nothing = cast(Any, None)
    markers = Markers(
        broker_id=1,
        partitions=nothing,
        image=nothing,
        groups=Groups(refusal),
        entries=cast(Any, Entries()),
        sender=nothing,
        clock=ManualClock(),
    )
    end = EndOfTransaction(producer_id=7, producer_epoch=0, commit=True, coordinator_epoch=0)
    outcomes = await markers.write_here(end, [(CONSUMER_OFFSETS, 0)])
    assert {place: type(error) for place, error in outcomes.items()} == {
        (CONSUMER_OFFSETS, 0): told
    }
