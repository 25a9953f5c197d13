"""A broker to hurt, and a load that keeps count of what was acknowledged."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.testing.local_broker import LocalBroker

# For `load` and `wire`: tests are imported without a package.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "fuzz")]


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """A broker that is not yet started; the test may change its settings, and kills it as it likes."""
    broker = LocalBroker(settings={"group.initial.rebalance.delay.ms": "0"})
    try:
        yield broker
        assert "Traceback" not in broker.log(), broker.log()
    finally:
        broker.kill()
        broker.close()
