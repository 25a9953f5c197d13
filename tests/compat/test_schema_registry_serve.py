"""`tidelog serve --registry`: it comes up after the broker, goes with it, and never takes it along."""

import signal
import socket
import threading
import urllib.request
from collections.abc import Callable

import pytest

from tidelog.schemas import RegistryClient
from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.compat

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/subjects") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def until(condition: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(1200):
        if condition():
            return
        waiting.wait(0.05)
    raise AssertionError("nothing went on")


def test_it_lives_with_the_broker() -> None:
    port = free_port()
    with LocalBroker(settings=SETTINGS, arguments=["--registry", f"127.0.0.1:{port}"]) as broker:
        until(lambda: answers(port))
        with RegistryClient(f"http://127.0.0.1:{port}") as client:
            assert client.register("s", '"int"') == 1
        assert broker.stop() == 0
        assert not answers(port), "it went before the broker did"
        broker.start()
        until(lambda: answers(port))
        assert broker.process is not None
        broker.process.send_signal(signal.SIGKILL)
        broker.process.wait()
        until(lambda: not answers(port))
        broker.start()
        until(lambda: answers(port))
        with RegistryClient(f"http://127.0.0.1:{port}") as client:
            assert client.subjects() == ["s"]


def test_a_port_that_is_taken_is_told_and_the_broker_goes_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        with LocalBroker(
            settings=SETTINGS, arguments=["--registry", f"127.0.0.1:{taken}"]
        ) as broker:
            wanted = f"the registry cannot listen on 127.0.0.1:{taken}"
            until(lambda: wanted in broker.log())
            assert broker.stop() == 0
            assert "Traceback" not in broker.log()
