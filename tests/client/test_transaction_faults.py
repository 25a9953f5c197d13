"""Transactions of the producer when requests fail, answers are lost and time passes."""

# ruff: noqa: PT012  (what a block of several statements raises is what is tested)

import asyncio

import pytest

from tidelog import Producer, TopicPartition, aio
from tidelog.client import transactions
from tidelog.client.transactions import FencedProducer
from tidelog.errors import RequestTimedOut, TransactionFailed
from tidelog.testing.fixture import Tidelog


@pytest.fixture(params=["v2", "v1"], autouse=True)
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both versions of transactions: the second as the broker has it, the first as with an older one."""
    if request.param == "v1":
        learn = transactions.Transactions._learn_version

        async def forget(self: transactions.Transactions) -> None:
            await learn(self)
            self._second_version = False

        monkeypatch.setattr(transactions.Transactions, "_learn_version", forget)
    return str(request.param)


def make(tidelog: Tidelog, **options: object) -> Producer:
    return Producer(
        bootstrap_servers=tidelog.bootstrap,
        transactional_id=tidelog.name("mine"),
        retry_backoff_ms=10,
        **options,
    )


def seen(tidelog: Tidelog, topic: str) -> list[bytes | None]:
    """What is committed; a last record shows that nothing is left open."""
    tidelog.produce(topic, "last")
    found = [each.value for each in tidelog.messages(topic, read_committed=True)]
    assert found.pop() == b"last"
    return found


def steps(producer: Producer, tidelog: Tidelog, topic: str, value: bytes) -> None:
    with producer.transaction():
        producer.send(topic, value, partition=0)
        producer.send_offsets({TopicPartition(topic, 0): 1}, tidelog.group())


APIS = [
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "Produce",
    "EndTxn",
    "FindCoordinator",
]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("fault", ["drop", "drop_answer"])
def test_a_connection_that_breaks_at_any_step_is_survived(
    tidelog: Tidelog, api: str, fault: str
) -> None:
    topic = tidelog.topic(partitions=1)
    getattr(tidelog.faults, fault)(api)
    with make(tidelog) as producer:
        steps(producer, tidelog, topic, b"one")
        getattr(tidelog.faults, fault)(api)
        steps(producer, tidelog, topic, b"two")
    assert seen(tidelog, topic) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("EndTxn", "CONCURRENT_TRANSACTIONS"),
        ("EndTxn", "NOT_COORDINATOR"),
        ("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("TxnOffsetCommit", "NOT_COORDINATOR"),
        ("InitProducerId", "CONCURRENT_TRANSACTIONS"),
        ("Produce", "NOT_LEADER_OR_FOLLOWER"),
    ],
)
def test_what_passes_is_waited_for(tidelog: Tidelog, api: str, error: str) -> None:
    topic = tidelog.topic(partitions=1)
    tidelog.faults.fail(api, error, times=3)
    with make(tidelog) as producer:
        steps(producer, tidelog, topic, b"one")
    assert seen(tidelog, topic) == [b"one"]


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("TxnOffsetCommit", "ILLEGAL_GENERATION"),
        ("TxnOffsetCommit", "TRANSACTION_ABORTABLE"),
        ("EndTxn", "TRANSACTION_ABORTABLE"),
        ("Produce", "TRANSACTION_ABORTABLE"),
        ("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        ("Produce", "UNKNOWN_PRODUCER_ID"),
        ("Produce", "INVALID_TXN_STATE"),
    ],
)
def test_what_can_be_tried_again_is_aborted_and_tried_again(
    tidelog: Tidelog, api: str, error: str
) -> None:
    topic = tidelog.topic(partitions=1)
    with make(tidelog) as producer:
        steps(producer, tidelog, topic, b"zero")
        tidelog.faults.fail(api, error)
        with pytest.raises(TransactionFailed):
            steps(producer, tidelog, topic, b"one")
        steps(producer, tidelog, topic, b"two")
    assert seen(tidelog, topic) == [b"zero", b"two"]


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("TxnOffsetCommit", "ILLEGAL_GENERATION"),
        ("AddOffsetsToTxn", "GROUP_AUTHORIZATION_FAILED"),
        ("AddPartitionsToTxn", "TOPIC_AUTHORIZATION_FAILED"),
        ("Produce", "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_what_never_began_can_be_aborted(tidelog: Tidelog, api: str, error: str) -> None:
    topic = tidelog.topic(partitions=1)
    with make(tidelog) as producer:
        for number in range(2):
            producer.begin_transaction()
            tidelog.faults.fail(api, error)
            try:
                if "Offset" in api:
                    producer.send_offsets({TopicPartition(topic, 0): 1}, tidelog.group())
                else:
                    producer.send(topic, b"refused")
                    producer.flush()
            except TransactionFailed:
                pass
            tidelog.faults.clear()
            producer.abort_transaction()
            steps(producer, tidelog, topic, b"%d" % number)
    assert seen(tidelog, topic) == [b"0", b"1"]


def test_an_abort_does_not_wait_for_a_broker_to_take_what_is_dropped(tidelog: Tidelog) -> None:
    topic = tidelog.topic(partitions=1)
    with make(tidelog) as producer:
        with pytest.raises(ZeroDivisionError), producer.transaction():
            fault = tidelog.faults.drop("Produce", times=None)
            delivery = producer.send(topic, b"dropped")
            fault.wait(1)
            1 / 0  # noqa: B018
        assert isinstance(delivery.exception(0), Exception)
        fault.end()
        steps(producer, tidelog, topic, b"kept")
    assert seen(tidelog, topic) == [b"kept"]


def test_a_commit_whose_answer_does_not_come_can_be_asked_for_again(tidelog: Tidelog) -> None:
    topic = tidelog.topic(partitions=1)
    with make(tidelog, max_block_ms=300) as producer:
        producer.begin_transaction()
        producer.send(topic, b"one")
        fault = tidelog.faults.fail("EndTxn", "COORDINATOR_NOT_AVAILABLE", times=None)
        with pytest.raises(RequestTimedOut, match=r"commit within max\.block\.ms=300"):
            producer.commit_transaction()
        with pytest.raises(Exception, match="call commit_transaction again"):
            producer.abort_transaction()
        fault.end()
        producer.commit_transaction()
    assert seen(tidelog, topic) == [b"one"]


def test_a_producer_whose_time_is_over_is_fenced(tidelog: Tidelog) -> None:
    topic = tidelog.topic(partitions=1)
    with make(tidelog, transaction_timeout_ms=60_000) as producer:
        with pytest.raises((FencedProducer, TransactionFailed)), producer.transaction():
            producer.send(topic, b"late")
            producer.flush()
            tidelog.advance(minutes=2)
            producer.send(topic, b"later")
        with pytest.raises(FencedProducer, match=r"transaction\.timeout\.ms=60000"):
            producer.begin_transaction()
    assert seen(tidelog, topic) == []


async def test_a_commit_that_is_cancelled_is_aborted(tidelog: Tidelog) -> None:
    """As Ctrl-C does with the blocking one; without that the next transaction could not begin."""
    topic = tidelog.topic(partitions=1)
    async with aio.Producer(
        bootstrap_servers=tidelog.bootstrap, transactional_id=tidelog.name("cancelled")
    ) as producer:

        async def send(value: bytes) -> None:
            async with producer.transaction():
                await producer.send(topic, value)

        await send(b"one")
        fault = tidelog.faults.drop("Produce", times=None)
        task = asyncio.create_task(send(b"two"))
        await asyncio.to_thread(fault.wait, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        fault.end()
        await send(b"three")
    assert await asyncio.to_thread(seen, tidelog, topic) == [b"one", b"three"]
