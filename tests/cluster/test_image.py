"""The image: what records do to it, and what a delta says."""

from uuid import UUID

import pytest

from tidelog.cluster import metadata
from tidelog.cluster.image import TOPIC, Image
from tidelog.cluster.metadata import (
    BrokerRecord,
    ConfigRecord,
    MetadataError,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RemoveTopicRecord,
    TopicRecord,
)
from tidelog.cluster.tail import difference

ONE, TWO = UUID(int=1), UUID(int=2)


def orders(partitions: int = 2) -> list[Record]:
    return [
        TopicRecord("orders", ONE),
        *(PartitionRecord(ONE, index, (0,), (0,), 0) for index in range(partitions)),
        ConfigRecord(TOPIC, "orders", "retention.ms", "5"),
    ]


def with_orders() -> Image:
    image, _ = Image().apply([BrokerRecord(0, (("PLAINTEXT", "", 9092),)), *orders()], 1)
    return image


def test_a_topic_comes_with_its_partitions_and_settings():
    image, delta = Image().apply(orders(3), 7)
    assert image.number == 7
    assert image.partition_count("orders") == 3
    assert image.topic_by_id(ONE) is image.topics["orders"]
    assert image.topic_config("orders") == {"retention.ms": "5"}
    assert delta.created == [image.topics["orders"]]
    assert delta.partitions == {}


def test_an_image_never_changes():
    before = with_orders()
    records = before.records()
    before.apply([RemoveTopicRecord(ONE)], 2)
    before.apply([PartitionChangeRecord(ONE, 0, leader=4)], 2)
    assert before.records() == records


def test_a_removed_topic_takes_its_settings_along():
    image, delta = with_orders().apply([RemoveTopicRecord(ONE)], 2)
    assert not image.topics
    assert not image.topic_names
    assert image.topic_config("orders") == {}
    assert [topic.name for topic in delta.deleted] == ["orders"]


def test_created_and_removed_in_one_batch_is_nothing():
    _, delta = Image().apply([*orders(), RemoveTopicRecord(ONE)], 1)
    assert not delta.created
    assert not delta.deleted


def test_a_topic_made_again_is_another_one():
    again = [
        RemoveTopicRecord(ONE),
        TopicRecord("orders", TWO),
        PartitionRecord(TWO, 0, (0,), (0,), 0),
    ]
    image, delta = with_orders().apply(again, 2)
    assert image.topics["orders"].id == TWO
    assert [topic.id for topic in delta.deleted] == [ONE]
    assert [topic.id for topic in delta.created] == [TWO]


def test_epochs_grow_with_changes():
    image, delta = with_orders().apply([PartitionChangeRecord(ONE, 1, leader=0)], 2)
    state = image.topics["orders"].partitions[1]
    assert (state.leader_epoch, state.partition_epoch) == (1, 1)
    assert delta.partitions == {"orders": {1}}
    image, _ = image.apply([PartitionChangeRecord(ONE, 1, isr=(0,))], 3)
    state = image.topics["orders"].partitions[1]
    assert (state.leader_epoch, state.partition_epoch) == (1, 2)


def test_more_partitions_are_in_the_delta():
    image, delta = with_orders().apply([PartitionRecord(ONE, 2, (0,), (0,), 0)], 2)
    assert image.partition_count("orders") == 3
    assert delta.partitions == {"orders": {2}}


def test_a_setting_is_taken_back():
    image, delta = with_orders().apply([ConfigRecord(TOPIC, "orders", "retention.ms", None)], 2)
    assert image.topic_config("orders") == {}
    assert delta.configs == {(TOPIC, "orders")}


@pytest.mark.parametrize(
    "record",
    [
        PartitionRecord(TWO, 0, (0,), (0,), 0),
        PartitionRecord(ONE, 5, (0,), (0,), 0),
        TopicRecord("orders", TWO),
        RemoveTopicRecord(TWO),
    ],
)
def test_a_log_that_contradicts_itself_is_refused(record: Record):
    with pytest.raises(MetadataError):
        with_orders().apply([record], 2)


def test_a_snapshot_makes_the_same_image():
    image, _ = with_orders().apply([ProducerIdsRecord(3000)], 2)
    data = metadata.encode(image.records())
    again, _ = Image().apply(metadata.decode(data), 2)
    assert again.topics == image.topics
    assert again.configs == image.configs
    assert again.next_producer_id == 3000
    assert again.brokers.keys() == image.brokers.keys()


def test_records_keep_their_json_form():
    """What was written yesterday must be read tomorrow: this text may only grow."""
    assert metadata.encode(orders(1)) == (
        b'[["topic",{"name":"orders","topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}],'
        b'["partition",{"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","index":0,"replicas":[0],"isr":[0],"leader":0}],'
        b'["config",{"resource":"topic","name":"orders","key":"retention.ms","value":"5"}]]'
    )
    everything = [
        BrokerRecord(1, (("PLAINTEXT", "host", 1),), "rack"),
        PartitionChangeRecord(ONE, 0, leader=1, isr=(1, 2), replicas=(1, 2)),
        RemoveTopicRecord(ONE),
        ProducerIdsRecord(5),
        *orders(),
    ]
    assert metadata.decode(metadata.encode(everything)) == everything


@pytest.mark.parametrize("data", [b'[["nova",{}]]', b'[["topic",{"name":1}]]', b"{", b"[1]"])
def test_what_is_not_known_is_refused(data: bytes):
    with pytest.raises(MetadataError):
        metadata.decode(data)


def test_the_difference_of_two_images():
    old = with_orders()
    new, _ = Image().apply(
        [
            BrokerRecord(0, ()),
            *orders(3),
            TopicRecord("bills", TWO),
            PartitionRecord(TWO, 0, (0,), (0,), 0),
            ConfigRecord(TOPIC, "orders", "retention.ms", "6"),
        ],
        9,
    )
    delta = difference(old, new)
    assert [topic.name for topic in delta.created] == ["bills"]
    assert delta.partitions == {"orders": {2}}
    assert delta.configs == {(TOPIC, "orders")}
    assert [topic.name for topic in difference(new, old).deleted] == ["bills"]
