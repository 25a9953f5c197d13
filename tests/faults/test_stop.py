"""Stopping: in good order under load, and at once when asked twice."""

import signal

import pytest
from load import Load, check_exactly_once, create_topic

from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.faults

CLEAN_MARK = ".kafka_cleanshutdown"


def test_a_stop_under_load_loses_nothing_and_leaves_the_clean_mark(broker: LocalBroker) -> None:
    broker.start()
    create_topic(broker.bootstrap, "load", partitions=2)
    with Load(broker.bootstrap, "load", partitions=2) as load:
        for _ in range(3):
            load.wait_for_acknowledgements(2000)
            assert broker.stop() == 0
            assert (broker.data / CLEAN_MARK).exists()
            broker.start()
            assert not (broker.data / CLEAN_MARK).exists(), (
                "a kill from here on must not look clean"
            )
    check_exactly_once(broker.bootstrap, load)


def test_a_killed_broker_leaves_no_clean_mark(broker: LocalBroker) -> None:
    broker.start()
    broker.kill()
    assert not (broker.data / CLEAN_MARK).exists()


def test_a_second_signal_ends_at_once(broker: LocalBroker) -> None:
    broker.start()
    create_topic(broker.bootstrap, "load")
    with Load(broker.bootstrap, "load") as load:
        load.wait_for_acknowledgements(1000)
        assert broker.process is not None
        # Both signals are there before the broker sees the first.
        for each in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            broker.process.send_signal(each)
        assert broker.process.wait(30) != 0
        broker.start()
        load.wait_for_acknowledgements(1000)
    check_exactly_once(broker.bootstrap, load)
