"""The admin client against a real broker."""

from collections.abc import Callable

import pytest

from tidelog import Admin, Consumer, Producer, SimpleConsumer, TopicPartition
from tidelog.errors import (
    GroupIdNotFound,
    InvalidPartitions,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)


def test_topics_come_and_grow_and_go(admin: Admin, unique: Callable[[str], str]) -> None:
    name = unique("topic")
    admin.create_topics({name: 2}, configs={"retention.ms": "5000"})
    assert name in admin.list_topics()
    described = admin.describe_topics([name])[name]
    assert [each.partition for each in described.partitions] == [0, 1]
    with pytest.raises(TopicAlreadyExists, match=name):
        admin.create_topics([name])
    admin.add_partitions(name, 5)
    assert len(admin.describe_topics([name])[name].partitions) == 5
    with pytest.raises(InvalidPartitions, match=name):
        admin.add_partitions(name, 3)
    admin.delete_topics([name])
    while name in admin.list_topics():  # Kafka tells of it a moment later
        pass
    with pytest.raises(UnknownTopicOrPartition, match=name):
        admin.delete_topics([name])
    admin.create_topics([name], validate_only=True)
    assert name not in admin.list_topics()


def test_configs(admin: Admin, topic: str) -> None:
    admin.alter_topic_configs(topic, {"retention.ms": "1234"})
    while (entry := admin.describe_topic_configs(topic)["retention.ms"]).is_default:
        pass  # Kafka tells of it a moment later
    assert (entry.value, entry.is_own) == ("1234", True)
    admin.alter_topic_configs(topic, {"retention.ms": None})
    while not (entry := admin.describe_topic_configs(topic)["retention.ms"]).is_default:
        pass
    assert entry.value != "1234"
    cluster = admin.describe_cluster()
    assert "log.segment.bytes" in admin.describe_broker_configs(cluster.brokers[0].id)


def test_records_and_offsets(bootstrap: str, admin: Admin, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"x", partition=0, timestamp=1000 + number)
    assert admin.delete_records({tp: 4}) == {tp: 4}
    assert admin.watermarks(topic)[tp] == (4, 10)
    assert admin.list_offsets({tp: 1007})[tp] == (7, 1007)
    with SimpleConsumer(bootstrap_servers=bootstrap) as consumer:
        assert [each.offset for each in consumer.fetch(topic, 0, 8)] == [8, 9]
        assert consumer.offsets_before(topic, 0, -1, 2) == [10, 4]
        assert consumer.offsets_before(topic, 0, 1007) == [7]
        with pytest.raises(OffsetOutOfRange, match="no offset 2"):
            consumer.fetch(topic, 0, 2)
        with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 2, not 7"):
            consumer.fetch(topic, 7, 0)


def test_groups(bootstrap: str, admin: Admin, topic: str, unique: Callable[[str], str]) -> None:
    group = unique("group")
    tp = TopicPartition(topic, 1)
    with Consumer(bootstrap_servers=bootstrap, group_id=group, topics=topic) as consumer:
        while not consumer.assigned():
            consumer.poll(timeout=0.1)
        described = admin.describe_groups([group])[group]
        assert described.state == "Stable"
        assert described.assignor == "range"
        assert {each.partition for each in described.members[0].assignment} == {0, 1, 2}
    admin.alter_group_offsets(group, {tp: 7})
    assert admin.group_offsets(group)[tp].offset == 7
    admin.delete_group_offsets(group, [tp])
    assert tp not in admin.group_offsets(group)
    assert group in [each.group_id for each in admin.list_groups()]
    admin.delete_groups([group])
    assert group not in [each.group_id for each in admin.list_groups()]
    with pytest.raises(GroupIdNotFound, match=group):
        admin.delete_groups([group])


def test_one_name_is_a_name_and_not_a_name_a_letter(
    admin: Admin, unique: Callable[[str], str]
) -> None:
    name = unique("single")
    admin.create_topics(name)
    assert list(admin.describe_topics(name)) == [name]
    admin.delete_topics(name)
    assert name not in admin.list_topics()
