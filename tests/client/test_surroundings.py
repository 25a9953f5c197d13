"""Clients in programs as they are: interrupted, forked, in a notebook, and pointed at what is not there."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidelog import Admin, Consumer, Producer, SimpleConsumer
from tidelog.errors import (
    KafkaError,
    NetworkException,
    SettingsError,
    TidelogError,
    UnknownTopicOrPartition,
)
from tidelog.testing.fixture import Tidelog

# Ctrl-C, while a call waits.

INTERRUPTED = """
import os, signal, sys, threading, tidelog
signal.signal(signal.SIGINT, signal.default_int_handler)  # even if the tests run in the background
bootstrap, topic = sys.argv[1:]

def interrupt_soon():
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

try:
{}
except KeyboardInterrupt:
    print("interrupted")
"""

WAITING = {
    "iteration": """
    with tidelog.Consumer(bootstrap_servers=bootstrap, topics=topic) as consumer:
        interrupt_soon()
        next(iter(consumer))
""",
    "poll in a group": """
    with tidelog.Consumer(bootstrap_servers=bootstrap, topics=topic, group_id="g") as consumer:
        interrupt_soon()
        consumer.poll(timeout=100)
""",
    "flush": """
    with tidelog.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"x", partition=0)
        interrupt_soon()
        producer.flush()
""",
    "a delivery": """
    with tidelog.Producer(bootstrap_servers=bootstrap) as producer:
        interrupt_soon()
        producer.send(topic, b"x", partition=0).result()
""",
    "the end of a block": """
    with tidelog.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"x", partition=0)
        interrupt_soon()
""",
    "a commit": """
    with tidelog.Producer(bootstrap_servers=bootstrap, transactional_id="t") as producer:
        with producer.transaction():
            producer.send(topic, b"x", partition=0)
            interrupt_soon()
""",
}


@pytest.mark.parametrize("what", WAITING)
def test_ctrl_c_ends_a_program_that_waits(tidelog: Tidelog, what: str) -> None:
    topic = tidelog.topic(partitions=1)
    with tidelog.faults.freeze(topic, 0):
        command = [sys.executable, "-c", INTERRUPTED.format(WAITING[what])]
        ended = subprocess.run(
            [*command, tidelog.bootstrap, topic], capture_output=True, timeout=60, check=False
        )
    assert ended.stdout == b"interrupted\n", ended.stderr.decode()
    assert b"Traceback" not in ended.stderr


# A fork.


def in_child(work: Callable[[], object]) -> str:
    """What a forked child raises, or returns."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = repr(work())
        except BaseException as error:  # noqa: BLE001
            said = str(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@pytest.fixture(params=["producer", "consumer", "admin", "simple"])
def client(request: pytest.FixtureRequest, bootstrap: str, topic: str) -> Iterator[Any]:
    made: dict[str, Callable[[], Any]] = {
        "producer": lambda: Producer(bootstrap_servers=bootstrap),
        "consumer": lambda: Consumer(bootstrap_servers=bootstrap, topics=topic),
        "admin": lambda: Admin(bootstrap_servers=bootstrap),
        "simple": lambda: SimpleConsumer(bootstrap_servers=bootstrap),
    }
    with made[request.param]() as client:
        yield client


def use(client: Any, topic: str) -> object:
    if isinstance(client, Producer):
        return client.send(topic, b"x").result(10)
    if isinstance(client, Consumer):
        return client.poll(timeout=0.01)
    if isinstance(client, SimpleConsumer):
        return client.offsets_before(topic, 0, -1)
    return client.list_topics()


def test_a_forked_child_is_told_and_its_parent_goes_on(client: Any, topic: str) -> None:
    use(client, topic)
    assert "fork" in in_child(lambda: use(client, topic))
    assert in_child(client.close) == "None"
    use(client, topic)


def test_a_forked_child_does_not_wait_for_what_its_parent_sends(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
        producer.send(topic, b"x")
        assert "fork" in in_child(producer.flush)


def test_a_child_may_have_clients_of_its_own(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"parent", partition=0).result(10)

        def work() -> int:
            with Producer(bootstrap_servers=bootstrap) as other:
                return other.send(topic, b"child", partition=0).result(10).offset

        assert in_child(work) == "1"
        assert producer.send(topic, b"parent", partition=0).result(10).offset == 2


# A notebook: a loop runs in the thread that calls.


async def test_blocking_clients_work_where_a_loop_runs(bootstrap: str, topic: str) -> None:
    asyncio.get_running_loop()
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"x", partition=0).result(10)
    with Consumer(
        bootstrap_servers=bootstrap, topics=topic, auto_offset_reset="earliest"
    ) as consumer:
        assert next(iter(consumer)).value == b"x"
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert topic in admin.list_topics()


def test_a_cell_that_is_run_again_leaves_no_threads(bootstrap: str, topic: str) -> None:
    before = threading.active_count()
    for _ in range(3):
        consumer = Consumer(bootstrap_servers=bootstrap, topics=topic)
        consumer.poll(timeout=0.01)
    del consumer
    assert threading.active_count() == before


# What is not there.


def test_a_wrong_address_is_named(unused_port: int) -> None:
    address = f"127.0.0.1:{unused_port}"
    expected = f"bootstrap.servers={address} can be reached.*refused.*check the address"
    with Producer(bootstrap_servers=address) as producer:
        with pytest.raises(NetworkException, match=expected):
            producer.send("t", b"x")
        with pytest.raises(NetworkException, match=expected):
            producer.partitions_for("t")
    for group in ("", "g"):
        with (
            Consumer(bootstrap_servers=address, topics="t", group_id=group) as consumer,
            pytest.raises(NetworkException, match=expected),
        ):
            consumer.poll(timeout=30)
    with Admin(bootstrap_servers=address) as admin, pytest.raises(NetworkException, match=expected):
        admin.list_topics()
    with (
        Producer(bootstrap_servers=address, transactional_id="x") as producer,
        pytest.raises(NetworkException, match=expected),
    ):
        producer.begin_transaction()


def test_a_name_that_is_no_host_s_is_named() -> None:
    with (
        Admin(bootstrap_servers="no-such-host.invalid:9092") as admin,
        pytest.raises(NetworkException, match=r"no-such-host\.invalid:9092"),
    ):
        admin.list_topics()


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":9092", "localhost:http", ""])
def test_an_address_that_is_none_is_refused_at_once(address: str) -> None:
    with pytest.raises(SettingsError, match=r"bootstrap\.servers.*host:port"):
        Admin(bootstrap_servers=address)


def test_a_server_of_another_kind_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for _ in range(3):
                peer, _ = server.accept()
                with peer:
                    peer.recv(100)
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with Admin(bootstrap_servers=address) as admin, pytest.raises(KafkaError, match=address):
            admin.list_topics()


def test_a_topic_that_is_not_there_is_named(admin: Admin, unique: Callable[[str], str]) -> None:
    name = unique("missing")
    for ask in (admin.describe_topics, admin.delete_topics):
        with pytest.raises(UnknownTopicOrPartition, match=name):
            ask([name])
    with pytest.raises(UnknownTopicOrPartition, match=name):
        admin.watermarks(name)


def test_a_setting_that_is_misspelt_is_corrected(bootstrap: str) -> None:
    with pytest.raises(SettingsError, match=r"transactional\.ids.*transactional\.id is"):
        Producer(bootstrap_servers=bootstrap, transactional_ids="x")


def test_a_closed_client_says_so(bootstrap: str, topic: str) -> None:
    producer, consumer, admin = (
        Producer(bootstrap_servers=bootstrap, transactional_id="closing"),
        Consumer(bootstrap_servers=bootstrap, topics=topic),
        Admin(bootstrap_servers=bootstrap),
    )
    for each in (producer, consumer, admin):
        each.close()
        each.close()
    for use_it in (producer.begin_transaction, consumer.assigned, admin.list_topics):
        with pytest.raises(TidelogError, match="closed"):
            use_it()
    assert list(consumer) == []


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
