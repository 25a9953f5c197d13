"""The group protocol of KIP-848 in the consumer, against a real broker."""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidelog import Admin, Consumer, Message, Producer, TopicPartition, aio
from tidelog.client.cluster import Cluster
from tidelog.client.settings import ClientSettings, load
from tidelog.errors import (
    FencedInstanceId,
    KafkaError,
    SettingsError,
    UnreleasedInstanceId,
    UnsupportedVersion,
)
from tidelog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.testing.fixture import Tidelog

Make = Callable[..., Consumer]


@pytest.fixture
def member(bootstrap: str) -> Iterator[Make]:
    """Makes members, and closes them in the end."""
    made: list[Consumer] = []

    def make(group: str, topics: object = None, **options: Any) -> Consumer:
        consumer = Consumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            group_protocol="consumer",
            topics=topics,
            auto_offset_reset="earliest",
            **options,
        )
        made.append(consumer)
        return consumer

    yield make
    for each in made:
        each.close()


def fill(bootstrap: str, topic: str, count: int, start: int = 0) -> list[bytes]:
    values = [b"%d" % number for number in range(start, start + count)]
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % 3)
    return values


def settle(*consumers: Consumer, shares: list[int]) -> None:
    """Poll until the consumers have so many partitions."""
    while sorted(len(each.assigned()) for each in consumers) != shares:
        for each in consumers:
            each.poll(max_records=1, timeout=0.02)


def read(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        found += consumer.poll(timeout=60)
    return found


def test_one_member_reads_everything_and_goes_on_where_it_left(
    bootstrap: str, topic: str, unique: Callable[[str], str], member: Make
) -> None:
    group = unique("group")
    first = fill(bootstrap, topic, 30)
    with member(group, topic) as consumer:
        assert sorted(each.value for each in read(consumer, 30)) == sorted(first)
    second = fill(bootstrap, topic, 30, start=30)
    with member(group, topic) as consumer:
        assert sorted(each.value for each in read(consumer, 30)) == sorted(second)


def test_partitions_move_to_a_second_member_and_back(
    bootstrap: str, topic: str, unique: Callable[[str], str], member: Make
) -> None:
    group = unique("group")
    events: list[tuple[str, int]] = []
    first = member(group)
    first.subscribe(
        topic,
        on_assigned=lambda tps: events.append(("assigned", len(tps))),
        on_revoked=lambda tps: events.append(("revoked", len(tps))),
    )
    settle(first, shares=[3])
    second = member(group, topic)
    settle(first, second, shares=[1, 2])
    assert first.assigned().isdisjoint(second.assigned())
    assert events[0] == ("assigned", 3)
    assert events[1][0] == "revoked"
    second.close()
    settle(first, shares=[3])


def test_what_moves_is_committed_before(
    bootstrap: str, topic: str, unique: Callable[[str], str], member: Make
) -> None:
    group = unique("group")
    sent = fill(bootstrap, topic, 300)
    first = member(group, topic)
    found = read(first, 300)
    second = member(group, topic)
    settle(first, second, shares=[1, 2])
    more = fill(bootstrap, topic, 300, start=300)
    while len(found) < 600:
        found += first.poll(timeout=0.02) + second.poll(timeout=0.02)
    assert sorted(each.value for each in found) == sorted(sent + more)


def test_the_broker_matches_a_pattern(
    bootstrap: str, admin: Admin, unique: Callable[[str], str], member: Make
) -> None:
    word = unique("match")
    admin.create_topics({f"{word}-a": 1, f"x-{word}": 1})
    consumer = member(unique("group"))
    consumer.subscribe(pattern=f"{word}-.*")
    settle(consumer, shares=[1])
    admin.create_topics({f"{word}-b": 2})
    settle(consumer, shares=[3])
    consumer.subscribe(f"x-{word}")
    settle(consumer, shares=[1])
    assert consumer.assigned() == {TopicPartition(f"x-{word}", 0)}


def test_a_pattern_with_exceptions_is_matched_here(
    bootstrap: str, admin: Admin, unique: Callable[[str], str], member: Make
) -> None:
    word = unique("match")
    admin.create_topics({f"{word}-a": 1, f"{word}-no": 1})
    consumer = member(unique("group"), metadata_max_age_ms=100)
    consumer.subscribe(pattern=re.compile(f"{word}-.*"), deny=[".*-no"])
    settle(consumer, shares=[1])
    assert consumer.assigned() == {TopicPartition(f"{word}-a", 0)}


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_broker_s_assignor_can_be_chosen(
    topic: str, unique: Callable[[str], str], member: Make, assignor: str
) -> None:
    consumer = member(unique("group"), topic, group_remote_assignor=assignor)
    settle(consumer, shares=[3])


def test_an_assignor_that_the_broker_lacks_is_named(
    topic: str, unique: Callable[[str], str], member: Make
) -> None:
    consumer = member(unique("group"), topic, group_remote_assignor="fairest")
    with pytest.raises(KafkaError, match="fairest"):
        consumer.poll(timeout=30)


def test_a_static_member_comes_back_to_its_partitions(
    topic: str, unique: Callable[[str], str], member: Make
) -> None:
    group = unique("group")
    one, two = (member(group, topic, group_instance_id=name) for name in ("one", "two"))
    settle(one, two, shares=[1, 2])
    had = one.assigned()
    one.close()
    again = member(group, topic, group_instance_id="one")
    settle(again, two, shares=[1, 2])
    assert again.assigned() == had
    rival = member(group, topic, group_instance_id="one")
    with pytest.raises((UnreleasedInstanceId, FencedInstanceId), match="'one'"):
        rival.poll(timeout=30)


def test_a_broker_that_does_not_offer_it_is_told_apart(tidelog: Tidelog) -> None:
    tidelog.faults.fail("ConsumerGroupHeartbeat", "UNSUPPORTED_VERSION", times=None)
    with (
        Consumer(
            bootstrap_servers=tidelog.bootstrap,
            group_id=tidelog.group(),
            group_protocol="consumer",
            topics=tidelog.topic(),
        ) as consumer,
        pytest.raises(UnsupportedVersion, match="use classic"),
    ):
        consumer.poll(timeout=30)


@pytest.mark.parametrize("fault", ["drop", "drop_answer"])
def test_heartbeats_that_are_lost_are_made_up_for(tidelog: Tidelog, fault: str) -> None:
    topic = tidelog.topic(partitions=3)
    tidelog.produce(topic, "x", partition=0)
    for _ in range(2):
        getattr(tidelog.faults, fault)("ConsumerGroupHeartbeat")
        with Consumer(
            bootstrap_servers=tidelog.bootstrap,
            group_id=tidelog.group(),
            group_protocol="consumer",
            topics=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            settle(consumer, shares=[3])


async def put_out(bootstrap: str, group: str, member_id: str) -> None:
    """Leave in a member's place."""
    settings = load(ClientSettings, None, {"bootstrap_servers": bootstrap})
    cluster = Cluster(settings)
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=-1)
    await cluster.ask_coordinator(group, request)
    await cluster.close()


def test_a_member_that_was_put_out_joins_again(
    bootstrap: str, topic: str, unique: Callable[[str], str], member: Make
) -> None:
    group = unique("group")
    lost: list[object] = []
    consumer = member(group)
    consumer.subscribe(topic, on_lost=lost.append)
    settle(consumer, shares=[3])
    asyncio.run(put_out(bootstrap, group, consumer.group_metadata().member_id))
    while not lost:
        consumer.poll(timeout=0.1)
    settle(consumer, shares=[3])
    fill(bootstrap, topic, 3)
    assert len(read(consumer, 3)) == 3


def test_a_reader_that_does_not_come_back_leaves(
    topic: str, unique: Callable[[str], str], member: Make
) -> None:
    group = unique("group")
    sleeper = member(group, topic, max_poll_interval_ms=300)
    settle(sleeper, shares=[3])
    other = member(group, topic)
    settle(other, shares=[3])  # the sleeper does not poll
    settle(sleeper, other, shares=[1, 2])


def test_such_a_group_is_described(
    admin: Admin, topic: str, unique: Callable[[str], str], member: Make
) -> None:
    group = unique("group")
    consumer = member(group, topic, group_instance_id="one")
    settle(consumer, shares=[3])
    found = admin.describe_groups([group])[group]
    while found.state != "Stable":
        consumer.poll(timeout=0.02)
        found = admin.describe_groups([group])[group]
    assert (found.type, found.assignor) == ("consumer", "uniform")
    (one,) = found.members
    assert one.group_instance_id == "one"
    assert one.assignment == tuple(TopicPartition(topic, index) for index in range(3))


def test_settings_that_are_the_broker_s_are_refused(bootstrap: str) -> None:
    with pytest.raises(SettingsError, match=r"session\.timeout\.ms"):
        Consumer(
            bootstrap_servers=bootstrap,
            group_id="g",
            group_protocol="consumer",
            session_timeout_ms=1,
        )
    with pytest.raises(SettingsError, match="needs group"):
        Consumer(bootstrap_servers=bootstrap, group_id="g", group_remote_assignor="range")


def test_offsets_in_transactions(
    bootstrap: str, topic: str, unique: Callable[[str], str], member: Make
) -> None:
    consumer = member(unique("group"), topic, isolation_level="read_committed")
    settle(consumer, shares=[3])
    at = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap, transactional_id=unique("mine")) as producer:
        with producer.transaction():
            producer.send_offsets({at: 7}, consumer.group_metadata())
        assert consumer.committed(at)[at].offset == 7


async def test_the_same_on_a_loop(bootstrap: str, topic: str, unique: Callable[[str], str]) -> None:
    fill(bootstrap, topic, 9)
    async with aio.Consumer(
        bootstrap_servers=bootstrap,
        group_id=unique("group"),
        group_protocol="consumer",
        topics=topic,
        auto_offset_reset="earliest",
    ) as consumer:
        found: list[Message] = []
        while len(found) < 9:
            found += await consumer.poll(timeout=60)
