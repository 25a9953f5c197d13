"""`kill -9` under load: nothing acknowledged is lost, nothing is repeated, order is kept."""

import random

import pytest
from confluent_kafka import Consumer, TopicPartition
from load import PATIENCE_S, Load, check_exactly_once, create_topic

from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.faults

ROUNDS = 50


def test_kills_under_load_lose_nothing_and_repeat_nothing(broker: LocalBroker) -> None:
    moments = random.Random(20)
    broker.start()
    create_topic(broker.bootstrap, "load", partitions=2, configs={"segment.bytes": "1048576"})
    with Load(broker.bootstrap, "load", partitions=2) as load:
        for _ in range(ROUNDS):
            load.wait_for_acknowledgements(moments.randrange(1, 5000))
            broker.restart(kill=True)
    check_exactly_once(broker.bootstrap, load)


def test_kills_right_after_the_start_do_no_harm(broker: LocalBroker) -> None:
    broker.start()
    create_topic(broker.bootstrap, "load")
    with Load(broker.bootstrap, "load") as load:
        for _ in range(5):
            load.wait_for_acknowledgements(1)
            for _ in range(3):
                broker.restart(kill=True)  # nobody has been served since the last one, or hardly
    check_exactly_once(broker.bootstrap, load)


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_commits_outlive_the_broker(broker: LocalBroker, kill: bool) -> None:
    broker.start()
    create_topic(broker.bootstrap, "load")
    with Load(broker.bootstrap, "load") as load:
        load.wait_for_acknowledgements(1000)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False}
    consumer = Consumer(settings)
    for offset in range(100, 1000, 100):
        where = TopicPartition("load", 0, offset, metadata=f"at {offset}")
        consumer.commit(offsets=[where], asynchronous=False)
    broker.restart(kill=kill)
    (found,) = consumer.committed([TopicPartition("load", 0)], PATIENCE_S)
    consumer.close()
    assert (found.offset, found.metadata) == (900, "at 900")
