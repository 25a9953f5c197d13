"""A broker for the clients, and names that no other test uses."""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tidelog import Admin
from tidelog.testing.child_broker import ChildBroker
from tidelog.testing.fixture import Tidelog
from tidelog.testing.local_broker import LocalBroker

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",  # a test need not wait for members that do not come
    "group.consumer.heartbeat.interval.ms": "100",  # nor for the news of others
    "offsets.topic.num.partitions": "4",
    "num.partitions": "3",
}


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """A broker that all tests of this process share; TIDELOG_COMPAT_BOOTSTRAP names another one to test against."""
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


@pytest.fixture(scope="session")
def faulty_broker() -> Iterator[ChildBroker]:
    """A broker in which faults can be made."""
    if "TIDELOG_COMPAT_BOOTSTRAP" in os.environ:
        pytest.skip("faults can be made in our own broker only")
    broker = ChildBroker()
    broker.start()
    yield broker
    broker.close()


@pytest.fixture
def tidelog(faulty_broker: ChildBroker) -> Iterator[Tidelog]:
    """What the plugin gives to a test, without the plugin."""
    made = Tidelog(faulty_broker, f"{os.getpid()}-{next(_numbers)}")
    yield made
    made.close()


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap) as made:
        yield made


_numbers = itertools.count()


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Names that no other test uses."""
    return lambda word: f"{word}-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(admin: Admin, unique: Callable[[str], str]) -> str:
    """A fresh topic with three partitions."""
    name = unique("topic")
    admin.create_topics({name: 3})
    admin.watermarks(name)  # its leaders are ready: Kafka's take a moment
    return name
