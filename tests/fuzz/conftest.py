"""A broker for hostile bytes: after the tests it must still run, with nothing unexpected in its log."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.testing.local_broker import LocalBroker

sys.path.insert(0, str(Path(__file__).parent))  # for `wire` and `instances`

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "num.partitions": "1",
    "log.index.size.max.bytes": "4096",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(settings=SETTINGS) as broker:
        yield broker
        assert broker.process is not None
        assert broker.process.poll() is None, "the broker has ended:\n" + broker.log()[-5000:]
        assert "Traceback" not in broker.log(), broker.log()[-10000:]
