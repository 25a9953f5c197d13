"""The consumer against a real broker."""

import itertools
import threading
import time
from collections.abc import Callable, Iterable

import pytest

from tidelog import Admin, Consumer, Message, Producer, TopicPartition
from tidelog.errors import OffsetOutOfRange, SettingsError, TidelogError, UnknownTopicOrPartition
from tidelog.testing.local_broker import LocalBroker


def fill(bootstrap: str, topic: str, count: int, *, partition: int | None = None) -> list[bytes]:
    sent = [b"%d" % number for number in range(count)]
    with Producer(bootstrap_servers=bootstrap, batch_size=500) as producer:
        for number, value in enumerate(sent):
            producer.send(topic, value, partition=number % 3 if partition is None else partition)
    return sent


def values(messages: Iterable[Message], count: int) -> list[bytes]:
    return [message.value for message in itertools.islice(messages, count)]


def poll_until(consumers: list[Consumer], done: Callable[[list[Message]], bool]) -> list[Message]:
    """What the consumers have polled by turns when it is done."""
    found: list[Message] = []
    until = time.monotonic() + 30
    while not done(found):
        assert time.monotonic() < until, f"{len(found)} messages, and not done"
        for consumer in consumers:
            found += consumer.poll(timeout=0.02)
    return found


def test_iteration_gives_everything_in_order(bootstrap: str, topic: str) -> None:
    sent = fill(bootstrap, topic, 3000)
    with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", topics=topic
    ) as consumer:
        found = list(itertools.islice(consumer, 3000))
        assert sorted(message.value for message in found) == sorted(sent)
        for partition in range(3):
            mine = [message for message in found if message.partition == partition]
            assert [message.value for message in mine] == sent[partition::3]
            assert [message.offset for message in mine] == list(range(1000))
        assert sum(consumer.lag().values()) == 0


def test_iteration_waits_and_can_be_broken_off(bootstrap: str, topic: str) -> None:
    with (
        Consumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", topics=topic
        ) as consumer,
        Producer(bootstrap_servers=bootstrap) as producer,
    ):
        threading.Timer(
            0.2, lambda: producer.send_many(topic, [b"a", b"b", b"c"], partition=0)
        ).start()
        for message in consumer:
            assert message.value == b"a"
            break
        assert values(consumer, 1) == [b"b"]
        assert [each.value for each in consumer.poll(timeout=60)] == [b"c"]


def test_poll_returns_at_most_what_is_asked_and_nothing_in_time(bootstrap: str, topic: str) -> None:
    sent = fill(bootstrap, topic, 50, partition=0)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        found = consumer.poll(max_records=20, timeout=60)
        while len(found) < 20:
            found += consumer.poll(max_records=20 - len(found), timeout=10)
        assert [each.value for each in found] == sent[:20]
        with pytest.raises(ValueError, match="max_records=-1 must be at least 1"):
            consumer.poll(max_records=-1)
        consumer.seek_to_end()
        assert consumer.position(topic, 0) == 50
        assert consumer.poll(timeout=0.05) == []


def test_seeks(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0, timestamp=1_000_000 + number)
    tp = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([tp])
        consumer.seek(topic, 0, 4)
        for message in consumer:
            assert message.offset == 4
            consumer.seek(topic, 0, 8)
            break
        assert values(consumer, 2) == [b"8", b"9"]
        consumer.seek_to_time(1_000_006, tp)
        assert values(consumer, 1) == [b"6"]
        consumer.seek_to_time(9_000_000, tp)
        assert consumer.position(topic, 0) == 10
        consumer.seek_to_beginning(tp)
        assert values(consumer, 1) == [b"0"]
        assert consumer.find_offsets({tp: 1_000_003})[tp] == (3, 1_000_003)
        with pytest.raises(TidelogError, match="not assigned"):
            consumer.seek(topic, 1, 0)


def test_a_seek_within_the_loop_takes_hold_at_once(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 10, partition=0)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        seen = []
        for message in consumer:
            seen.append(message.offset)
            if message.offset == 2:
                consumer.seek(topic, 0, 8)
            if message.offset == 9:
                break
        assert seen == [0, 1, 2, 8, 9]


def test_a_paused_partition_is_silent_and_loses_nothing(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 6, partition=0)
    fill(bootstrap, topic, 6, partition=1)
    zero = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([zero, (topic, 1)])
        first = poll_until([consumer], lambda found: len(found) == 12)
        assert len(first) == 12
        consumer.seek_to_beginning()
        consumer.pause(zero)
        assert {
            each.partition for each in poll_until([consumer], lambda found: len(found) == 6)
        } == {1}
        assert consumer.poll(timeout=0.05) == []
        consumer.resume(zero)
        assert {
            each.partition for each in poll_until([consumer], lambda found: len(found) == 6)
        } == {0}


def test_an_offset_that_is_gone(bootstrap: str, admin: Admin, topic: str) -> None:
    fill(bootstrap, topic, 10, partition=0)
    admin.delete_records({TopicPartition(topic, 0): 6})
    for reset, expected in (("smallest", b"6"), ("none", None)):
        with Consumer(bootstrap_servers=bootstrap, auto_offset_reset=reset) as consumer:
            consumer.assign([(topic, 0)])
            consumer.seek(topic, 0, 1)
            if expected:
                assert values(consumer, 1) == [expected]
            else:
                with pytest.raises(
                    OffsetOutOfRange, match=r"has no offset 1, and auto\.offset\.reset=none"
                ):
                    consumer.poll(timeout=60)


def test_prefetch_is_bounded(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, batch_size=10_000) as producer:
        producer.send_many(topic, [b"x" * 1000] * 2000)
    with Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        topics=topic,
        prefetch_max_bytes=100_000,
    ) as consumer:
        most = 0
        for place, _ in enumerate(consumer):
            most = max(most, consumer._assignment.buffered_bytes)
            if place == 1999:
                break
        assert most <= 100_000 + 3 * 11_000  # and a batch of each partition


def test_a_group_shares_and_hands_over(
    bootstrap: str, topic: str, unique: Callable[[str], str]
) -> None:
    group = unique("group")
    fill(bootstrap, topic, 300)
    options = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 50,
    }
    events: list[tuple[str, int]] = []
    with Consumer(**options) as one:
        one.subscribe(
            topic,
            on_assigned=lambda tps: events.append(("assigned", len(tps))),
            on_revoked=lambda tps: events.append(("revoked", len(tps))),
        )
        found = poll_until([one], lambda found: len(found) == 300)
        with Consumer(topics=topic, **options) as two:
            poll_until(
                [one, two],
                lambda _: {len(one.assigned()), len(two.assigned())} == {1, 2},
            )
            fill(bootstrap, topic, 300)
            more = poll_until([one, two], lambda found: len(found) >= 300)
        assert len(found) + len(more) == 600, "nothing twice, nothing lost"
        poll_until([one], lambda _: len(one.assigned()) == 3)
        one.commit()
        assert {each.offset for each in one.committed().values()} == {200}
    # Who of the two gets the larger share is a matter of their ids.
    assert events[:2] == [("assigned", 3), ("revoked", 3)]
    assert events[2] in [("assigned", 1), ("assigned", 2)]


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_every_assignor_settles(
    bootstrap: str, topic: str, unique: Callable[[str], str], assignor: str
) -> None:
    options = {
        "bootstrap_servers": bootstrap,
        "group_id": unique("group"),
        "partition_assignment_strategy": assignor,
        "heartbeat_interval_ms": 50,
        "topics": topic,
    }
    revoked: list[int] = []
    with Consumer(**options) as one, Consumer(**options) as two, Consumer(**options) as three:
        one.subscribe(topic, on_revoked=lambda tps: revoked.append(len(tps)))
        everybody = [one, two, three]
        poll_until(everybody, lambda _: all(len(each.assigned()) == 1 for each in everybody))
        assert set.union(*(each.assigned() for each in everybody)) == {
            TopicPartition(topic, index) for index in range(3)
        }
        poll_until(everybody, lambda _: len(everybody) == 3)


def test_what_was_committed_is_gone_on_from(
    bootstrap: str, topic: str, unique: Callable[[str], str]
) -> None:
    sent = fill(bootstrap, topic, 10, partition=0)
    options = {
        "bootstrap_servers": bootstrap,
        "group_id": unique("group"),
        "auto_offset_reset": "earliest",
    }
    with Consumer(topics=topic, **options) as consumer:
        assert values(consumer, 4) == sent[:4]
    with Consumer(topics=topic, enable_auto_commit=False, **options) as consumer:
        assert values(consumer, 3) == sent[4:7]
    with Consumer(topics=topic, enable_auto_commit=False, **options) as consumer:
        assert values(consumer, 2) == sent[4:6]
        consumer.commit()
        consumer.commit({TopicPartition(topic, 1): 0})
    with Consumer(**options) as consumer:
        consumer.assign([(topic, 0)])
        assert values(consumer, 1) == sent[6:7]


def test_a_static_member_comes_back_without_a_rebalance(
    bootstrap: str, admin: Admin, topic: str, unique: Callable[[str], str]
) -> None:
    group = unique("group")
    options = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "group_instance_id": "i1",
        "topics": topic,
        "heartbeat_interval_ms": 50,
    }
    for _ in range(2):
        with Consumer(**options) as consumer:
            poll_until([consumer], lambda _, consumer=consumer: len(consumer.assigned()) == 3)
        (member,) = admin.describe_groups([group])[group].members
        assert member.group_instance_id == "i1"
    admin.remove_members(group, instance_ids=["i1"])
    assert admin.describe_groups([group])[group].members == ()


def test_a_pattern_picks_up_new_topics_but_none_that_are_denied(
    bootstrap: str, admin: Admin, unique: Callable[[str], str]
) -> None:
    word = unique("p")
    admin.create_topics({f"{word}.a": 1, f"{word}.secret": 1})
    for group in ({}, {"group_id": unique("group")}):
        with Consumer(
            bootstrap_servers=bootstrap, metadata_max_age_ms=200, heartbeat_interval_ms=50, **group
        ) as consumer:
            consumer.subscribe(pattern=rf"{word}\..*", deny=[r".*\.secret"])
            poll_until([consumer], lambda _, c=consumer: len(c.assigned()) == 1)
            new = f"{word}.b{len(group)}"
            admin.create_topics({new: 2})
            poll_until(
                [consumer], lambda _, c=consumer, new=new: TopicPartition(new, 1) in c.assigned()
            )
            assert TopicPartition(f"{word}.secret", 0) not in consumer.assigned()
        admin.delete_topics([new])


def test_streams_are_even_and_each_partition_is_in_one(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 300)
    found: list[list[Message]] = [[], [], []]
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        streams = consumer.streams(topic, 3)

        def read(place: int) -> None:
            found[place] += itertools.islice(streams[place], 100)

        threads = [threading.Thread(target=read, args=(place,)) for place in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert [{each.partition for each in stream} for stream in found] == [{0}, {1}, {2}]
    assert [len(stream) for stream in found] == [100, 100, 100]


def test_close_ends_a_waiting_iteration(bootstrap: str, topic: str) -> None:
    consumer = Consumer(bootstrap_servers=bootstrap, topics=topic)
    ended = threading.Event()
    thread = threading.Thread(target=lambda: (list(consumer), ended.set()))
    thread.start()
    consumer.close()
    assert ended.wait(10)
    thread.join()


def test_reading_goes_on_over_a_restart(own_broker: LocalBroker) -> None:
    with Consumer(
        bootstrap_servers=own_broker.bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
    ) as consumer:
        with Admin(bootstrap_servers=own_broker.bootstrap) as admin:
            admin.create_topics({"t": 3})
        consumer.subscribe("t")
        fill(own_broker.bootstrap, "t", 30)
        found = poll_until([consumer], lambda found: len(found) == 30)
        consumer.commit()
        own_broker.restart()
        fill(own_broker.bootstrap, "t", 30)
        found += poll_until([consumer], lambda found: len(found) == 30)
    assert len({each[:3] for each in found}) == 60


def test_errors_name_the_value_and_the_cure(bootstrap: str, unique: Callable[[str], str]) -> None:
    name = unique("nowhere")
    with (
        Consumer(bootstrap_servers=bootstrap, topics=name) as consumer,
        pytest.raises(UnknownTopicOrPartition, match=f"there is no topic '{name}'"),
    ):
        consumer.poll(timeout=60)
    with (
        Consumer(bootstrap_servers=bootstrap) as consumer,
        pytest.raises(SettingsError, match=r"group\.id is not set"),
    ):
        consumer.commit({TopicPartition("t", 0): 1})
