"""Transactions of the producer, against a real broker: all or nothing, once, and by one producer at a time."""

# ruff: noqa: PT012  (what a block of several statements raises is what is tested)

import time
from collections.abc import Callable, Iterator

import pytest

from tidelog import Admin, Consumer, Producer, SimpleConsumer, TopicPartition, aio
from tidelog.client import transactions
from tidelog.client.transactions import FencedProducer
from tidelog.errors import (
    KafkaError,
    ProducerFenced,
    ProducerUnusable,
    SettingsError,
    TidelogError,
    TransactionFailed,
)


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


@pytest.fixture
def producer(bootstrap: str, unique: Callable[[str], str]) -> Iterator[Producer]:
    with Producer(bootstrap_servers=bootstrap, transactional_id=unique("mine")) as made:
        yield made


def committed(bootstrap: str, topic: str) -> list[bytes]:
    """The values of all partitions that a reader of committed records sees, until there are no more."""
    with Consumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=100,
    ) as consumer:
        places = [TopicPartition(topic, index) for index in range(3)]
        consumer.assign(places)
        ends = consumer.find_offsets(dict.fromkeys(places, -1))
        found = []
        while any(consumer.position(*tp) < ends[tp].offset for tp in places):
            found += [message.value for message in consumer.poll(timeout=0.1)]
        return found


def test_a_block_that_ends_well_is_committed(
    bootstrap: str, topic: str, producer: Producer
) -> None:
    for number in range(3):
        with producer.transaction():
            for index in range(3):
                producer.send(topic, b"%d-%d" % (number, index), partition=index)
    expected = [b"%d-%d" % (number, index) for number in range(3) for index in range(3)]
    assert sorted(committed(bootstrap, topic)) == expected


def test_a_block_that_fails_is_aborted(
    bootstrap: str, topic: str, unique: Callable[[str], str]
) -> None:
    name = unique("mine")
    # What lingers for a minute has not been sent when the block fails, however slow the machine is.
    with Producer(bootstrap_servers=bootstrap, transactional_id=name, linger_ms=60_000) as producer:
        with pytest.raises(ZeroDivisionError), producer.transaction():
            sent = producer.send(topic, b"sent", partition=0)
            producer.flush()
            waits = producer.send(topic, b"waits", partition=0)
            1 / 0  # noqa: B018
        assert sent.result().offset == 0
        assert isinstance(waits.exception(60), TransactionFailed)
        with producer.transaction():
            producer.send(topic, b"whole", partition=0)
    assert committed(bootstrap, topic) == [b"whole"]


def test_a_simple_consumer_reads_past_what_was_aborted(
    bootstrap: str, topic: str, producer: Producer
) -> None:
    """However small the pieces are that it reads."""
    for number in range(6):
        producer.begin_transaction()
        producer.send(topic, b"%d" % number, partition=0)
        producer.flush()
        (producer.abort_transaction if number < 5 else producer.commit_transaction)()
    with SimpleConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        found = consumer.fetch(topic, 0, offset=0, max_bytes=1)
        assert [each.value for each in found] == [b"5"]
        assert consumer.fetch(topic, 0, offset=found[-1].offset + 1) == []


def test_empty_transactions_cost_nothing(bootstrap: str, topic: str, producer: Producer) -> None:
    with producer.transaction():
        pass
    with pytest.raises(KeyError), producer.transaction():
        raise KeyError
    with producer.transaction():
        producer.send(topic, b"x")
    assert committed(bootstrap, topic) == [b"x"]


def test_step_by_step(bootstrap: str, topic: str, producer: Producer) -> None:
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"dropped")
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(topic, b"kept")
    producer.commit_transaction()
    assert committed(bootstrap, topic) == [b"kept"]


def test_nothing_is_sent_outside_of_a_transaction(topic: str, producer: Producer) -> None:
    with pytest.raises(TidelogError, match=r"with producer.transaction\(\)"):
        producer.send(topic, b"x")
    with producer.transaction():
        producer.send(topic, b"x")
    with pytest.raises(TidelogError, match="ready for a transaction"):
        producer.send(topic, b"x")
    with pytest.raises(TidelogError, match="not in a transaction"):
        producer.commit_transaction()
    producer.begin_transaction()
    with pytest.raises(TidelogError, match="in a transaction"):
        producer.begin_transaction()


def test_an_id_is_needed_and_acks_of_all(bootstrap: str, topic: str) -> None:
    with (
        Producer(bootstrap_servers=bootstrap) as plain,
        pytest.raises(SettingsError, match=r"transactional\.id"),
        plain.transaction(),
    ):
        pass
    with pytest.raises(SettingsError, match="acks=all"):
        Producer(bootstrap_servers=bootstrap, transactional_id="x", acks=1)


def test_a_successor_fences(bootstrap: str, topic: str, unique: Callable[[str], str]) -> None:
    name = unique("contested")
    with (
        Producer(bootstrap_servers=bootstrap, transactional_id=name) as old,
        Producer(bootstrap_servers=bootstrap, transactional_id=name) as new,
    ):
        old.begin_transaction()
        old.send(topic, b"old", partition=0)
        old.flush()
        with new.transaction():
            new.send(topic, b"new", partition=0)
        with pytest.raises(ProducerFenced, match=name) as raised:
            old.commit_transaction()
        assert isinstance(raised.value, ProducerUnusable)
        for unusable in (old.begin_transaction, old.abort_transaction):
            with pytest.raises(FencedProducer, match="has taken over"):
                unusable()
        with pytest.raises(FencedProducer):
            old.send(topic, b"older", partition=0)
    assert committed(bootstrap, topic) == [b"new"]


def test_a_block_of_a_fenced_producer_tells_so(
    bootstrap: str, topic: str, unique: Callable[[str], str]
) -> None:
    name = unique("contested")
    with Producer(bootstrap_servers=bootstrap, transactional_id=name) as old:
        old.init_transactions()
        with Producer(bootstrap_servers=bootstrap, transactional_id=name) as new:
            new.init_transactions()
        with pytest.raises((ProducerUnusable, TransactionFailed)), old.transaction():
            old.send(topic, b"old")
        with pytest.raises(ProducerUnusable), old.transaction():
            old.send(topic, b"old")
    assert committed(bootstrap, topic) == []


def test_a_batch_that_fails_spoils_only_its_transaction(
    bootstrap: str, admin: Admin, unique: Callable[[str], str], producer: Producer
) -> None:
    topic = unique("small")
    admin.create_topics({topic: 3}, configs={"max.message.bytes": "1000"})
    with pytest.raises(TransactionFailed, match=r"max\.message\.bytes"), producer.transaction():
        producer.send(topic, b"good", partition=0)
        producer.flush()
        producer.send(topic, b"x" * 2000, partition=0)
    with pytest.raises(TransactionFailed) as raised:
        producer.begin_transaction()
        producer.send(topic, b"x" * 2000, partition=0)
        producer.flush()
        producer.send(topic, b"x", partition=0)
    assert isinstance(raised.value.__cause__, KafkaError)
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"small enough", partition=0)
    assert committed(bootstrap, topic) == [b"small enough"]


def test_offsets_are_committed_with_the_records(
    bootstrap: str, topic: str, unique: Callable[[str], str], producer: Producer
) -> None:
    source, group = topic, unique("group")
    with Producer(bootstrap_servers=bootstrap) as plain:
        plain.send_many(source, [b"%d" % number for number in range(10)], partition=0)
    out = unique("out")
    with (
        Admin(bootstrap_servers=bootstrap) as admin,
        Consumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            topics=source,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        ) as consumer,
    ):
        admin.create_topics({out: 3})

        def copy() -> None:
            for message in consumer.poll(max_records=5, timeout=30):
                producer.send(out, message.value + b"!", partition=0)
            producer.send_offsets(consumer.positions(), consumer.group_metadata())

        with producer.transaction():
            copy()
        with pytest.raises(ZeroDivisionError), producer.transaction():
            copy()
            1 / 0  # noqa: B018
        at = TopicPartition(source, 0)
        assert admin.group_offsets(group, require_stable=True)[at].offset == 5
        consumer.seek_to_committed()
        with producer.transaction():
            copy()
        assert admin.group_offsets(group, require_stable=True)[at].offset == 10
    assert committed(bootstrap, out) == [b"%d!" % number for number in range(10)]


def test_a_member_that_was_replaced_cannot_commit(
    bootstrap: str, topic: str, unique: Callable[[str], str], producer: Producer
) -> None:
    with Consumer(
        bootstrap_servers=bootstrap,
        group_id=unique("group"),
        topics=topic,
        isolation_level="read_committed",
    ) as consumer:
        while not consumer.assigned():
            consumer.poll(timeout=0.1)
        group = consumer.group_metadata()
        assert group.generation > 0
        stale = group._replace(generation=group.generation - 1)
        with pytest.raises(TransactionFailed, match=group.group_id), producer.transaction():
            producer.send(topic, b"x")
            producer.send_offsets({TopicPartition(topic, 0): 7}, stale)
        with producer.transaction():
            producer.send_offsets({TopicPartition(topic, 0): 8}, group)
        assert consumer.committed()[TopicPartition(topic, 0)].offset == 8


def test_a_reader_that_has_lost_its_partitions_cannot_commit_without_them(
    bootstrap: str, admin: Admin, topic: str, unique: Callable[[str], str], producer: Producer
) -> None:
    """It does not know yet that others have them: there must be something to refuse."""
    with Producer(bootstrap_servers=bootstrap) as plain:
        plain.send(topic, b"x", partition=0)
    group = unique("group")
    with Consumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        topics=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=50,
    ) as consumer:
        while not consumer.poll(timeout=1):
            pass
        admin.remove_members(group, member_ids=[consumer.group_metadata().member_id])
        membership = consumer._core.membership
        assert membership is not None
        while membership.generation != -1:
            time.sleep(0.01)  # a heartbeat has told
        assert consumer.positions()[TopicPartition(topic, 0)] == 1
        with pytest.raises(TransactionFailed, match=group), producer.transaction():
            producer.send(topic, b"copied twice", partition=1)
            producer.send_offsets(consumer.positions(), consumer.group_metadata())
        while not consumer.poll(timeout=1):  # it joins again, and reads again
            pass


def test_closing_aborts_what_is_open(
    bootstrap: str, topic: str, unique: Callable[[str], str]
) -> None:
    with Producer(bootstrap_servers=bootstrap, transactional_id=unique("left")) as producer:
        producer.begin_transaction()
        producer.send(topic, b"left", partition=0)
        producer.flush()
    assert committed(bootstrap, topic) == []


async def test_the_same_on_a_loop(bootstrap: str, topic: str, unique: Callable[[str], str]) -> None:
    async with aio.Producer(
        bootstrap_servers=bootstrap, transactional_id=unique("aio")
    ) as producer:
        async with producer.transaction():
            await producer.send(topic, b"kept", partition=0)
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                await producer.send(topic, b"dropped", partition=0)
                1 / 0  # noqa: B018
    async with aio.Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        await consumer.assign([(topic, 0)])
        assert [each.value for each in await consumer.poll(timeout=60)] == [b"kept"]
