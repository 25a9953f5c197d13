"""What every Kafka user does, with each foreign client, unmodified, over real sockets.

`FINDINGS.md` says what a client cannot do by itself and which deviations are known.
"""

import time
from collections.abc import Callable

import pytest
from peers import PEERS, Message, Peer

from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.compat


def peers_that(*need: str) -> pytest.MarkDecorator:
    """Run for every client that can do what is needed."""
    able = [each for each in PEERS if set(need) <= each.can]
    return pytest.mark.parametrize("kind", able, ids=lambda each: each.name)


def start(kind: type[Peer], bootstrap: str) -> Peer:
    if reason := kind.why_absent():
        pytest.skip(reason)
    return kind(bootstrap)


@pytest.fixture
def peer(kind: type[Peer], bootstrap: str) -> Peer:
    return start(kind, bootstrap)


@pytest.fixture
def topic(bootstrap: str, unique: Callable[[str], str]) -> str:
    """A topic of one partition, made by another client where this one cannot."""
    name = unique("topic")
    PEERS[0](bootstrap).create_topic(name)
    return name


def some_messages(count: int) -> list[Message]:
    return [
        Message(f"value {n} ".encode() * 20, f"key-{n % 7}".encode(), partition=0)
        for n in range(count)
    ]


def pairs(messages: list[Message]) -> list[tuple[bytes | None, bytes | None]]:
    return [(each.key, each.value) for each in messages]


@peers_that("admin")
def test_topics_are_created_listed_and_deleted(peer: Peer, unique: Callable[[str], str]) -> None:
    name = unique("made")
    peer.create_topic(name, partitions=3, configs={"retention.ms": "123456"})
    assert name in peer.topics()
    assert peer.topic_configs(name)["retention.ms"] == "123456"
    peer.produce(name, [Message(b"to the last partition", partition=2)])
    assert [each.value for each in peer.consume(name, 2, 1)] == [b"to the last partition"]
    peer.delete_topic(name)
    assert name not in peer.topics()


@peers_that("admin")
def test_a_topic_made_again_is_empty(peer: Peer, unique: Callable[[str], str]) -> None:
    name = unique("again")
    for round_ in (b"first", b"second"):
        peer.create_topic(name)
        peer.produce(name, [Message(round_, partition=0)])
        (read,) = peer.consume(name, 0, 1)
        assert (read.value, read.offset) == (round_, 0)
        peer.delete_topic(name)


@peers_that()
def test_a_topic_is_made_by_the_first_message(peer: Peer, unique: Callable[[str], str]) -> None:
    name = unique("auto")
    peer.produce(name, [Message(b"hello")])
    assert name in peer.topics()
    assert [each.value for each in peer.consume(name, 0, 1)] == [b"hello"]


@pytest.mark.parametrize(
    ("kind", "codec"),
    [
        pytest.param(each, codec, id=f"{each.name}-{codec}")
        for each in PEERS
        for codec in each.codecs
    ],
)
def test_every_codec_comes_back(peer: Peer, codec: str, topic: str) -> None:
    sent = some_messages(300)
    peer.produce(topic, sent, compression=codec)
    read = peer.consume(topic, 0, 300)
    assert pairs(read) == pairs(sent)
    assert [each.offset for each in read] == list(range(300))


@peers_that("headers")
def test_headers_come_back(peer: Peer, topic: str) -> None:
    headers = (("trace", b"0af7651916cd43dd"), ("empty", b""), ("text", "größe".encode()))
    peer.produce(topic, [Message(b"x", b"k", headers, partition=0)])
    (read,) = peer.consume(topic, 0, 1)
    assert read.headers == headers


@peers_that("timestamps")
def test_timestamps_come_back(peer: Peer, topic: str) -> None:
    stamps = [1_700_000_000_000, 1_600_000_000_000, 1_700_000_000_001]
    peer.produce(topic, [Message(b"x", timestamp_ms=each, partition=0) for each in stamps])
    assert [each.timestamp_ms for each in peer.consume(topic, 0, 3)] == stamps


@peers_that()
def test_a_reader_can_start_at_a_time(peer: Peer, bootstrap: str, topic: str) -> None:
    hour = 3_600_000
    start_ms = time.time_ns() // 1_000_000 - 10 * hour
    sent = [Message(b"%d" % n, timestamp_ms=start_ms + n * hour, partition=0) for n in range(8)]
    for message in sent:  # a batch each, so that the index has something to find
        PEERS[0](bootstrap).produce(topic, [message])
    read = peer.consume_from(topic, 0, start_ms + 3 * hour - 1, 5)
    assert [each.value for each in read] == [b"3", b"4", b"5", b"6", b"7"]


@peers_that("idempotence")
def test_an_idempotent_producer_writes_once_and_in_order(peer: Peer, topic: str) -> None:
    sent = some_messages(500)
    peer.produce(topic, sent, idempotent=True)
    assert pairs(peer.consume(topic, 0, 500)) == pairs(sent)


@peers_that("admin")
def test_settings_of_a_topic_can_be_read_and_changed(peer: Peer, topic: str) -> None:
    before = peer.topic_configs(topic)
    assert before["cleanup.policy"] == "delete"
    assert before["max.message.bytes"] == "1048588"
    peer.alter_topic_config(topic, "retention.ms", "86400000")
    after = peer.topic_configs(topic)
    assert after["retention.ms"] == "86400000"
    assert after | {"retention.ms": ""} == before | {"retention.ms": ""}


@peers_that()
def test_two_members_share_a_topic_and_one_takes_over(
    peer: Peer, bootstrap: str, unique: Callable[[str], str]
) -> None:
    name, group = unique("shared"), unique("group")
    PEERS[0](bootstrap).create_topic(name, partitions=4)
    with peer.member(group, name) as first:
        first.owns(4)
        second = peer.member(group, name)
        try:
            second.owns(2)
            first.owns(2)
            assert not first.partitions & second.partitions
            both = PEERS[0](bootstrap)
            both.produce(name, [Message(b"%d" % n, partition=n % 4) for n in range(40)])
            for member in (first, second):
                member.wait(lambda me: len(me._messages) >= 20, "its half of the messages")
            assert {each.partition for each in second.messages} == second.partitions
        finally:
            second.close()
        first.owns(4)
        both.produce(name, [Message(b"%d" % n, partition=n % 4) for n in range(40, 44)])
        new = {b"40", b"41", b"42", b"43"}
        first.wait(
            lambda me: new <= {each.value for each in me._messages}, "all partitions' messages"
        )
        # At least once: what a member had not committed when it lost a partition may be seen again.
        seen = {int(each.value or b"") for each in [*first.messages, *second.messages]}
        assert seen == set(range(44))


@peers_that()
def test_committed_offsets_survive_a_restart(
    kind: type[Peer], own_broker: LocalBroker, unique: Callable[[str], str]
) -> None:
    peer = start(kind, own_broker.bootstrap)
    name, group = unique("kept"), unique("group")
    PEERS[0](own_broker.bootstrap).create_topic(name)
    peer.produce(name, [Message(b"%d" % n, partition=0) for n in range(10)])
    with peer.member(group, name) as before:
        before.wait(lambda me: len(me._messages) == 10, "ten messages")
    own_broker.restart()
    peer.produce(name, [Message(b"%d" % n, partition=0) for n in range(10, 15)])
    with peer.member(group, name) as after:
        after.wait(lambda me: len(me._messages) >= 5, "five messages")
        assert [each.value for each in after.messages] == [b"10", b"11", b"12", b"13", b"14"]


CROSSES = [
    (writer, reader, codec)
    for writer in PEERS
    for reader in PEERS
    for codec in writer.codecs
    # A reader without the codec cannot read it, whoever the broker is; the new group protocol is no other reader.
    if codec in reader.codecs
    and writer is not reader
    and "group.protocol" not in writer.name + reader.name
]


@pytest.mark.parametrize(
    ("writer", "reader", "codec"),
    [pytest.param(*each, id=f"{each[0].name}-{each[1].name}-{each[2]}") for each in CROSSES],
)
def test_what_one_client_writes_another_reads(
    writer: type[Peer], reader: type[Peer], codec: str, bootstrap: str, topic: str
) -> None:
    sent = [
        Message(b"%d" % n * 50, b"k%d" % n, (("from", writer.name.encode()),), partition=0)
        for n in range(50)
    ]
    start(writer, bootstrap).produce(topic, sent, compression=codec)
    read = start(reader, bootstrap).consume(topic, 0, 50)
    assert pairs(read) == pairs(sent)
    assert {each.headers for each in read} == {(("from", writer.name.encode()),)}
