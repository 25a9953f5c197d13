"""Foreign clients and a real broker for them."""

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.testing.local_broker import LocalBroker

sys.path.insert(0, str(Path(__file__).parent))  # for `peers`: tests are imported without a package

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",  # as Kafka's own quick start has it: a test need not wait for it
    "offsets.topic.num.partitions": "4",
}


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """The address of a broker that all tests of this process share.

    TIDELOG_COMPAT_BOOTSTRAP points the suite at another broker, for instance at Apache Kafka, to see whether
    a failure is ours or the test's.
    """
    if elsewhere := os.environ.get("TIDELOG_COMPAT_BOOTSTRAP"):
        yield elsewhere
        return
    with LocalBroker(settings=SETTINGS) as broker:
        yield broker.bootstrap
        assert "Traceback" not in broker.log(), broker.log()


@pytest.fixture
def own_broker() -> Iterator[LocalBroker]:
    """A broker that the test may restart."""
    if "TIDELOG_COMPAT_BOOTSTRAP" in os.environ:
        pytest.skip("the broker under test is not ours to restart")
    with LocalBroker(settings=SETTINGS) as broker:
        yield broker
        assert "Traceback" not in broker.log(), broker.log()


_numbers = itertools.count()


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Names that no other test uses."""
    return lambda word: f"{word}-{os.getpid()}-{next(_numbers)}"
