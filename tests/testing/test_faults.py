"""Faults as the clients that people use meet them."""

import asyncio
import contextlib
import socket
import threading
import time

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tidelog.errors import KafkaError, NotLeaderOrFollower, TopicAuthorizationFailed
from tidelog.protocol.frame import decode_response, encode_request
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.records.builder import build_batch
from tidelog.testing.child_broker import ChildBroker
from tidelog.testing.thread_broker import ThreadBroker

DEADLINE_S = 60

both = pytest.mark.parametrize("broker", [ThreadBroker, ChildBroker], indirect=True)


# ---------------------------------------------------------------------- clients, each as its users write it


def send_with_confluent(bootstrap, topic, *values):
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "retry.backoff.ms": 10, "linger.ms": 0}
    )
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0


def send_with_kafka_python(bootstrap, topic, *values):
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, retry_backoff_ms=10, enable_idempotence=True
    )
    try:
        for sent in [producer.send(topic, value) for value in values]:
            sent.get(DEADLINE_S)
    finally:
        producer.close()


def send_with_aiokafka(bootstrap, topic, *values):
    async def send():
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, retry_backoff_ms=10
        ) as producer:
            for value in values:
                await producer.send_and_wait(topic, value)

    asyncio.run(send())


def read_with_confluent(bootstrap, topic, group):
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.ms": 10,
            "fetch.error.backoff.ms": 10,
        }
    )
    consumer.subscribe([topic])
    try:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                return message.value()
    finally:
        consumer.close()


def read_with_kafka_python(bootstrap, topic, group):
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        consumer_timeout_ms=DEADLINE_S * 1000,
        reconnect_backoff_ms=10,
    )
    try:
        return next(iter(consumer)).value
    finally:
        consumer.close()


def read_with_aiokafka(bootstrap, topic, group):
    async def read():
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            retry_backoff_ms=10,
        )
        async with asyncio.timeout(DEADLINE_S), consumer:
            return (await consumer.getone()).value

    return asyncio.run(read())


writers = pytest.mark.parametrize(
    "send", [send_with_confluent, send_with_kafka_python, send_with_aiokafka]
)
readers = pytest.mark.parametrize(
    "read", [read_with_confluent, read_with_kafka_python, read_with_aiokafka]
)


def values(tidelog, topic):
    return [each.value for each in tidelog.messages(topic)]


# ---------------------------------------------------------------------- writing


@writers
def test_a_producer_sends_again_what_failed(tidelog, send):
    topic = tidelog.topic()
    fault = tidelog.faults.fail("Produce", NotLeaderOrFollower, times=3)
    send(tidelog.bootstrap, topic, b"a")
    assert fault.struck == 3
    assert values(tidelog, topic) == [b"a"]


@writers
@pytest.mark.parametrize("how", ["drop", "drop_answer"])
def test_a_producer_that_hears_nothing_writes_once(tidelog, send, how):
    topic = tidelog.topic()
    fault = getattr(tidelog.faults, how)("Produce", topic=topic)
    producer = send
    if send is send_with_confluent and how == "drop_answer":

        def producer(bootstrap, topic, value):
            made = confluent_kafka.Producer(
                {"bootstrap.servers": bootstrap, "enable.idempotence": True}
            )
            made.produce(topic, value)
            assert made.flush(DEADLINE_S) == 0

    producer(tidelog.bootstrap, topic, b"a")
    assert fault.struck == 1
    assert values(tidelog, topic) == [b"a"]


def test_an_error_that_is_final_reaches_the_application(tidelog):
    topic = tidelog.topic()
    tidelog.faults.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
    told = []
    producer = confluent_kafka.Producer({"bootstrap.servers": tidelog.bootstrap})
    producer.produce(topic, b"a", on_delivery=lambda error, _: told.append(error.code()))
    producer.flush(DEADLINE_S)
    assert told == [TopicAuthorizationFailed.code]
    assert values(tidelog, topic) == []


def produces(topic, count):
    """Small requests, as a producer that does not wait writes them: all of one kind, so that they are served in runs."""
    frames = b""
    for number in range(count):
        batch = build_batch([(1_700_000_000_000, None, b"%d" % number, ())])
        data = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(index=0, records=batch)]
        )
        request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data])
        frames += encode_request(request, 9, number, "raw")
    return frames


def answers(bootstrap, frames, count):
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port))) as sock, sock.makefile("rb") as file:
        sock.sendall(frames)
        for _ in range(count):
            size = int.from_bytes(file.read(4), "big")
            correlation_id, answer = decode_response(ProduceResponse, file.read(size), 9)
            yield correlation_id, answer.responses[0].partition_responses[0].error_code


@both
def test_requests_that_are_served_in_runs_meet_their_fault(tidelog):
    topic = tidelog.topic()
    tidelog.faults.fail("Produce", NotLeaderOrFollower, times=3, client_id="raw")
    found = list(answers(tidelog.bootstrap, produces(topic, 40), 40))
    assert found == [(number, 6 if number < 3 else 0) for number in range(40)]
    assert values(tidelog, topic) == [b"%d" % number for number in range(3, 40)]


# ---------------------------------------------------------------------- reading


@readers
@pytest.mark.parametrize("how", ["fail", "drop", "drop_answer", "delay"])
def test_a_consumer_goes_on_after_a_fetch_that_went_wrong(tidelog, read, how):
    topic = tidelog.topic()
    tidelog.produce(topic, "a")
    arguments = {"fail": [NotLeaderOrFollower], "delay": [0.05]}.get(how, [])
    fault = getattr(tidelog.faults, how)("Fetch", *arguments)
    assert read(tidelog.bootstrap, topic, tidelog.group()) == b"a"
    assert fault.struck == 1


@readers
@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("SyncGroup", "NOT_COORDINATOR"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_a_consumer_joins_although_the_coordinator_is_not_ready(tidelog, read, api, error):
    topic = tidelog.topic()
    tidelog.produce(topic, "a")
    fault = tidelog.faults.fail(api, error)
    assert read(tidelog.bootstrap, topic, tidelog.group()) == b"a"
    assert fault.struck == 1


@readers
def test_metadata_that_fail_are_asked_for_again(tidelog, read):
    topic = tidelog.topic()
    tidelog.produce(topic, "a")
    fault = tidelog.faults.fail("Metadata", "LEADER_NOT_AVAILABLE", times=2, topic=topic)
    assert read(tidelog.bootstrap, topic, tidelog.group()) == b"a"
    assert fault.struck == 2


# ---------------------------------------------------------------------- what is struck


@both
def test_a_fault_is_narrowed_to_a_topic_and_a_client(tidelog):
    mine, other = tidelog.topic("mine"), tidelog.topic("other")
    by_topic = tidelog.faults.fail("Produce", TopicAuthorizationFailed, times=None, topic=mine)
    send_with_confluent(tidelog.bootstrap, other, b"a")
    assert by_topic.struck == 0
    by_topic.end()
    by_client = tidelog.faults.fail("Produce", 6, times=None, client_id="somebody")
    send_with_confluent(tidelog.bootstrap, mine, b"a")
    assert by_client.struck == 0


def test_the_fixtures_own_clients_are_spared(tidelog):
    topic = tidelog.topic()
    for api in ("Produce", "Fetch", "Metadata", "ListOffsets", "ApiVersions"):
        tidelog.faults.drop(api, times=None)
    tidelog.produce(topic, "a")
    assert values(tidelog, topic) == [b"a"]


def test_faults_strike_in_the_order_of_their_orders(tidelog):
    topic = tidelog.topic()
    first = tidelog.faults.fail("Produce", 6, times=1)
    second = tidelog.faults.fail("Produce", 7, times=2)
    found = list(answers(tidelog.bootstrap, produces(topic, 4), 4))
    assert [code for _, code in found] == [6, 7, 7, 0]
    assert (first.struck, second.struck) == (1, 2)


def test_a_fault_ends_with_its_block(tidelog):
    topic = tidelog.topic()
    with tidelog.faults.fail("Produce", 6, times=None) as fault:
        assert [code for _, code in answers(tidelog.bootstrap, produces(topic, 2), 2)] == [6, 6]
    assert [code for _, code in answers(tidelog.bootstrap, produces(topic, 1), 1)] == [0]
    assert fault.struck == 2


@both
def test_waiting_for_a_fault_that_does_not_come_is_told(tidelog):
    fault = tidelog.faults.fail("Produce", 6, times=2)
    with pytest.raises(TimeoutError, match=r"struck 0 of 2 times in 0\.01 s"):
        fault.wait(timeout=0.01)


@pytest.mark.parametrize(
    ("api", "error", "message"),
    [
        ("Produse", 6, "there is no API 'Produse'; did you mean 'Produce'?"),
        ("Produce", "NOT_LEADER", "no error 'NOT_LEADER'; did you mean 'NotLeaderOrFollower'?"),
        ("Produce", ValueError, "is no error of Kafka's protocol"),
    ],
)
def test_words_that_are_wrong_are_told(tidelog, api, error, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        tidelog.faults.fail(api, error)


def test_a_fault_that_strikes_never_is_refused(tidelog):
    with pytest.raises(ValueError, match="times=0"):
        tidelog.faults.drop("Fetch", times=0)


# ---------------------------------------------------------------------- frozen


@writers
def test_a_frozen_partition_takes_nothing_until_it_thaws(tidelog, send):
    topic = tidelog.topic(partitions=1)
    done = threading.Event()

    def work():
        send(tidelog.bootstrap, topic, b"a")
        done.set()

    with tidelog.faults.freeze(topic) as frozen:
        thread = threading.Thread(target=work)
        thread.start()
        frozen.wait(1)
        assert not done.is_set()
        assert tidelog.admin.watermarks(topic)[topic, 0] == (0, 0)
    thread.join()
    assert done.is_set()
    assert values(tidelog, topic) == [b"a"]


@both
def test_other_partitions_are_not_frozen(tidelog):
    topic = tidelog.topic(partitions=2)
    with tidelog.faults.freeze(topic, 1) as frozen:
        assert [code for _, code in answers(tidelog.bootstrap, produces(topic, 3), 3)] == [0, 0, 0]
        assert frozen.struck == 0


# ---------------------------------------------------------------------- the broker


@both
def test_what_was_acknowledged_outlives_a_kill(tidelog):
    topic = tidelog.topic()
    send_with_confluent(tidelog.bootstrap, topic, *(b"%d" % n for n in range(100)))
    before = tidelog.bootstrap
    tidelog.broker.kill()
    with pytest.raises(RuntimeError, match=r"start it with broker.restart\(\)"):
        tidelog.topic("more")
    tidelog.broker.restart()
    assert tidelog.bootstrap == before
    assert values(tidelog, topic) == [b"%d" % n for n in range(100)]


def test_a_producer_survives_a_restart(tidelog):
    topic = tidelog.topic()
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": tidelog.bootstrap,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
        }
    )
    producer.produce(topic, b"before")
    assert producer.flush(DEADLINE_S) == 0
    tidelog.broker.kill()
    producer.produce(topic, b"meanwhile")
    tidelog.broker.restart()
    assert producer.flush(DEADLINE_S) == 0
    assert values(tidelog, topic) == [b"before", b"meanwhile"]


@both
def test_a_paused_broker_answers_nobody(tidelog):
    topic = tidelog.topic()
    tidelog.broker.pause()
    host, port = tidelog.bootstrap.split(":")
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(produces(topic, 1))
        sock.settimeout(0.1)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        with pytest.raises(RuntimeError, match=r"broker.resume\(\)"):
            tidelog.faults.clear()
        tidelog.broker.resume()
        sock.settimeout(DEADLINE_S)
        assert sock.recv(1)
    assert values(tidelog, topic) == [b"0"]


# ---------------------------------------------------------------------- time


def test_time_removes_a_member_that_is_silent(tidelog):
    topic, group = tidelog.topic(), tidelog.group()
    tidelog.produce(topic, "a")
    lost = []
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": tidelog.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 45_000,
            "heartbeat.interval.ms": 100,
        }
    )
    consumer.subscribe([topic], on_lost=lambda *_: lost.append(True))
    with contextlib.closing(consumer):
        assert consumer.consume(1, DEADLINE_S)[0].value() == b"a"
        (member,) = tidelog.admin.describe_groups([group])[group].members
        tidelog.advance(minutes=1)
        assert tidelog.admin.describe_groups([group])[group].members == ()
        deadline = time.monotonic() + DEADLINE_S
        while not lost and time.monotonic() < deadline:
            consumer.poll(0.05)  # its next heartbeat tells it
    assert lost
    assert member.client_id


@both
def test_time_deletes_what_is_older_than_retention(tidelog):
    topic = tidelog.topic(configs={"retention.ms": 60_000})
    tidelog.produce(topic, "old")
    tidelog.advance(seconds=30)
    assert values(tidelog, topic) == [b"old"]
    tidelog.advance(minutes=5)
    assert values(tidelog, topic) == []
    assert tidelog.admin.watermarks(topic)[topic, 0] == (1, 1)


def test_time_aborts_a_transaction_that_was_left(tidelog):
    topic = tidelog.topic()
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": tidelog.bootstrap, "transactional.id": tidelog.name("writer")}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"a")
    producer.flush(DEADLINE_S)
    tidelog.advance(hours=1)
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction()
    assert [each.value for each in tidelog.messages(topic, read_committed=True)] == []


@both
def test_time_ends_a_delay(tidelog):
    topic = tidelog.topic()
    fault = tidelog.faults.delay("Produce", 3600)
    found = answers(tidelog.bootstrap, produces(topic, 1), 1)
    read = []
    thread = threading.Thread(target=lambda: read.extend(found))
    thread.start()
    fault.wait()
    tidelog.advance(hours=1)
    thread.join()
    assert read == [(0, 0)]


@both
def test_time_survives_a_restart_and_never_goes_back(tidelog):
    topic = tidelog.topic(configs={"message.timestamp.type": "LogAppendTime"})
    tidelog.advance(days=1)
    tidelog.produce(topic, "a")
    tidelog.broker.restart()
    tidelog.produce(topic, "b")
    first, second = (each.timestamp for each in tidelog.messages(topic))
    assert first <= second
    with pytest.raises(ValueError, match="does not go back"):
        tidelog.advance(seconds=-1)


@both
def test_errors_of_the_broker_are_raised_here(tidelog):
    with pytest.raises(KafkaError, match="a b"):
        tidelog.topic("a b", exact=True)
