"""What the coordinators are told of a change of the image."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.broker.coordinators import Coordinators
from tidelog.cluster.image import Broker, Delta, Image


@pytest.mark.parametrize("made", [True, False])
async def test_whoever_is_fenced_or_unregistered_is_not_waited_for(made):
    nothing = cast(Any, None)
    coordinators = Coordinators(
        broker_id=1,
        clock=nothing,
        settings=nothing,
        image=nothing,
        partitions=nothing,
        peers=nothing,
        ensure_topic=nothing,
        new_producer_id=nothing,
        background=nothing,
        random=nothing,
        lease=nothing,
    )
    gone: list[int] = []
    coordinators._transactions = cast(Any, SimpleNamespace(is_made=made))
    coordinators.transactions = cast(Any, SimpleNamespace(broker_gone=gone.append))
    brokers = {
        2: Broker(2, 1, (), None, fenced=True),
        3: Broker(3, 1, (), None, fenced=False),
        5: Broker(5, 1, (), None, fenced=True),
    }
    coordinators.follow(Image(brokers=brokers), Delta(brokers={2, 3, 4}))
    assert sorted(gone) == ([2, 4] if made else [])
