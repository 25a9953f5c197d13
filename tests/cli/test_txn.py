"""`tidelog txn`: transactions are listed, described and ended."""

import contextlib

import pytest

from tidelog import Admin, Producer
from tidelog.errors import KafkaError
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.records.builder import build_batch
from tidelog.testing.local_broker import LocalBroker


@pytest.fixture
def writer(broker, topic, unique):
    """A producer with an open transaction."""
    name = unique("writer")
    producer = Producer(bootstrap_servers=broker.bootstrap, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"a").result()
    producer.name = name
    yield producer
    with contextlib.suppress(KafkaError):
        producer.close()


def test_list_and_describe(cli, topic, writer):
    found = {each["transactional_id"]: each for each in cli("txn", "list", "--json").ok().json}
    assert found[writer.name]["state"] == "Ongoing"
    assert writer.name in cli("txn", "list", "--state", "Ongoing").ok().out
    assert writer.name not in cli("txn", "list", "--longer-than", "1h").ok().out
    (described,) = cli("txn", "describe", writer.name, "--json").ok().json
    assert described["partitions"] == [f"{topic}-0"]
    assert described["open_seconds"] >= 0
    lines = cli("txn", "describe", writer.name).ok().lines
    assert lines[0] == f"Transactional id {writer.name}: Ongoing"
    assert lines[-1] == f"  partitions  {topic}-0"
    writer.commit_transaction()
    (described,) = cli("txn", "describe", writer.name, "--json").ok().json
    assert described["state"] == "CompleteCommit"


def test_abort_fences_the_producer(cli, topic, writer):
    assert "fenced its producer" in cli("txn", "abort", writer.name).ok().out
    with pytest.raises(KafkaError):
        writer.commit_transaction()
    assert cli("consume", topic, "--read-committed").ok().out == ""
    assert cli("consume", topic).ok().out == "a\n"


def test_what_hangs_is_aborted_by_its_place(cli, topic, writer):
    (row,) = cli("txn", "producers", "--topic", topic, "--json").ok().json
    assert (row["partition"], row["start_offset"]) == (0, 0)
    assert "START-OFFSET" in cli("txn", "producers", "--topic", topic).ok().out
    wrong = cli("txn", "abort", "--topic", topic, "--partition", 0, "--start-offset", 9)
    assert wrong.code == 1
    assert "open ones began at: 0" in wrong.err
    cli("txn", "abort", "--topic", topic, "--start-offset", 0).ok()
    (row,) = cli("txn", "producers", "--topic", topic, "--json").ok().json
    assert row["start_offset"] is None


@pytest.mark.parametrize(
    "words",
    [
        ("abort",),
        ("describe",),
        ("abort", "--topic", "t"),
        ("abort", "--start-offset", "1"),
        ("list", "--state", "Asleep"),
        ("list", "--longer-than", "soon"),
        ("producers",),
    ],
)
def test_wrong_use(cli, words):
    assert cli("txn", *words).code == 2


def test_an_id_that_is_not_there(cli, unique):
    name = unique("nobody")
    for action in ("describe", "abort"):
        ran = cli("txn", action, name)
        assert ran.code == 1
        assert name in ran.err
    assert name not in cli("txn", "list").ok().out


def test_what_hangs_is_found_then_aborted(tidelog, monkeypatch):
    """Its batch is in the partition, but no coordinator has heard of it: as after a coordinator that lost its state."""
    settings = {"transaction.partition.verification.enable": "false"}
    with LocalBroker(settings=settings) as lax:
        monkeypatch.setenv("TIDELOG_BOOTSTRAP", lax.bootstrap)
        config = {"bootstrap_servers": lax.bootstrap}
        with Admin(**config) as admin:
            admin.create_topics({"orders": 2})
            leader = admin.run(lambda core: core._cluster.leader("orders", 1))
            batch = build_batch(
                [(1000, None, b"lost", ())],
                producer_id=4242,
                producer_epoch=3,
                base_sequence=0,
                transactional=True,
            )
            data = PartitionProduceData(index=1, records=batch)
            request = ProduceRequest(
                transactional_id="gone",
                acks=-1,
                timeout_ms=10_000,
                topic_data=[TopicProduceData(name="orders", partition_data=[data])],
            )
            written = admin.run(lambda core: core._cluster.ask(leader.node, request, at_most=11))
            assert written.responses[0].partition_responses[0].error_code == 0
        with Producer(**config, transactional_id="alive") as alive:
            alive.begin_transaction()
            alive.send("orders", b"open", partition=0).result()
            (row,) = tidelog("txn", "find-hanging", "--json", "--idle", "0s").ok().json
            assert (row["topic"], row["partition"], row["producer_id"]) == ("orders", 1, 4242)
            assert row["start_offset"] == 0
            shown = tidelog("txn", "find-hanging", "--topic", "orders", "--idle", "0s").ok()
            command = shown.lines[-1].partition(": tidelog ")[2]
            assert command == "txn abort --topic orders --partition 1 --start-offset 0"
            tidelog(*command.split()).ok()
            assert tidelog("txn", "find-hanging", "--json", "--idle", "0s").ok().json == []
            assert "Nothing hangs" in tidelog("txn", "find-hanging").ok().out
            alive.commit_transaction()
        assert tidelog("consume", "orders", "--read-committed", "--exit").ok().out == "open\n"


def test_a_young_transaction_does_not_hang(cli, topic, writer):
    ran = cli("txn", "find-hanging", "--topic", topic, "--json").ok()
    assert ran.json == []
    assert cli("txn", "find-hanging", "--partition", "0").code == 2
