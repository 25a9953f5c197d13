"""A consumer that cannot be a member says so, every time; one that can later on becomes one."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tidelog import Consumer, Producer, aio
from tidelog.errors import KafkaError, NetworkException
from tidelog.testing.local_broker import LocalBroker


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nobody listens, and nobody else will."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


WAYS = {
    "classic": {"group_id": "g"},
    "consumer": {"group_id": "g", "group_protocol": "consumer"},
    "no group": {},
}


@pytest.mark.parametrize("way", WAYS)
def test_no_broker_is_an_error_every_time(way: str, nobody: str) -> None:
    with Consumer(bootstrap_servers=nobody, topics="t", **WAYS[way]) as consumer:
        for patience_s in (1.5, 0.1, 0.0):
            with pytest.raises(NetworkException, match="no broker of bootstrap"):
                consumer.poll(patience_s)


async def test_no_broker_is_an_error_every_time_on_a_loop(nobody: str) -> None:
    async with aio.Consumer(bootstrap_servers=nobody, topics="t", group_id="g") as consumer:
        for patience_s in (1.5, 0.1):
            with pytest.raises(NetworkException, match="no broker of bootstrap"):
                await consumer.poll(patience_s)


@pytest.mark.parametrize("way", WAYS)
def test_a_broker_that_starts_later_is_found(way: str) -> None:
    with LocalBroker(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("t", b"1")
        broker.stop()
        options: dict[str, Any] = {"auto_offset_reset": "earliest", **WAYS[way]}
        with Consumer(bootstrap_servers=broker.bootstrap, topics="t", **options) as consumer:
            with pytest.raises(NetworkException):
                consumer.poll(1.5)
            threading.Timer(0.5, broker.start).start()
            assert [each.value for each in consumer.poll(60)] == [b"1"]


def test_a_group_that_refuses_is_an_error_every_time(
    bootstrap: str, topic: str, unique: Callable[[str], str]
) -> None:
    group = unique("group")
    options: dict[str, Any] = {"bootstrap_servers": bootstrap, "group_id": group, "topics": topic}
    with Consumer(partition_assignment_strategy="range", **options) as first:
        until = time.monotonic() + 30
        while not first.assigned():
            assert time.monotonic() < until
            first.poll(0.1)
        with Consumer(partition_assignment_strategy="roundrobin", **options) as second:
            for _ in range(2):
                with pytest.raises(KafkaError, match="protocol"):
                    second.poll(1.0)
            first.close()
            # It goes on trying: when the other has left it is a member.
            while not second.assigned():
                assert time.monotonic() < until
                with suppress(KafkaError):
                    second.poll(0.1)
