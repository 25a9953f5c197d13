"""`tidelog txn`: transactions are listed, described and ended."""

import contextlib

import pytest

from tidelog import Producer
from tidelog.errors import KafkaError


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
