"""What administrators and careful consumers do, with librdkafka and kafka-python."""

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaAdminClient
from peers import PEERS, Message
from peers.base import PATIENCE_S

pytestmark = pytest.mark.compat

Unique = Callable[[str], str]


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def make_topic(admin: AdminClient, name: str, partitions: int = 1, **configs: str) -> str:
    config = {key.replace("_", "."): value for key, value in configs.items()}
    new = NewTopic(name, num_partitions=partitions, config=config)
    admin.create_topics([new])[name].result(PATIENCE_S)
    return name


def write(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    PEERS[0](bootstrap).produce(
        topic, [Message(b"%d" % n, partition=partition) for n in range(count)]
    )


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(KafkaException) as caught:
        call()
    return str(caught.value.args[0].name())


def consumer_of(bootstrap: str, group: str, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def poll_until(consumers: list[Consumer], done: Callable[[], bool]) -> None:
    """Poll all in turn until something holds."""
    ended = threading.Event()
    timer = threading.Timer(PATIENCE_S, ended.set)
    timer.start()
    try:
        while not done():
            assert not ended.is_set(), "it never came"
            for each in consumers:
                each.poll(0.05)
    finally:
        timer.cancel()


def test_partitions_can_be_added(admin: AdminClient, bootstrap: str, unique: Unique) -> None:
    topic = make_topic(admin, unique("grows"))
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
    write(bootstrap, topic, 5, partition=2)
    assert len(admin.list_topics(topic, PATIENCE_S).topics[topic].partitions) == 3
    shrink = admin.create_partitions([NewPartitions(topic, 2)])[topic]
    assert error_of(lambda: shrink.result(PATIENCE_S)) == "INVALID_PARTITIONS"


def test_records_can_be_deleted_up_to_an_offset(
    admin: AdminClient, bootstrap: str, unique: Unique
) -> None:
    topic = make_topic(admin, unique("cut"))
    write(bootstrap, topic, 10)
    (future,) = admin.delete_records([TopicPartition(topic, 0, 4)]).values()
    assert future.result(PATIENCE_S).low_watermark == 4
    consumer = consumer_of(bootstrap, unique("g"))
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_S) == (4, 10)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    first = consumer.poll(PATIENCE_S)
    consumer.close()
    assert first is not None
    assert (first.offset(), first.value()) == (4, b"4")


def test_offsets_can_be_listed(admin: AdminClient, bootstrap: str, unique: Unique) -> None:
    topic = make_topic(admin, unique("listed"))
    stamps = [1_700_000_000_000, 1_700_000_900_000, 1_700_000_500_000]
    for each in stamps:
        PEERS[0](bootstrap).produce(topic, [Message(b"x", timestamp_ms=each, partition=0)])
    where = TopicPartition(topic, 0)

    def listed(spec: OffsetSpec) -> int:
        return int(admin.list_offsets({where: spec})[where].result(PATIENCE_S).offset)

    assert listed(OffsetSpec.earliest()) == 0
    assert listed(OffsetSpec.latest()) == 3
    assert listed(OffsetSpec.max_timestamp()) == 1
    assert listed(OffsetSpec.for_timestamp(1_700_000_000_001)) == 1
    assert listed(OffsetSpec.for_timestamp(1_800_000_000_000)) == -1


def test_the_cluster_describes_itself(admin: AdminClient, bootstrap: str) -> None:
    cluster = admin.describe_cluster().result(PATIENCE_S)
    assert cluster.cluster_id
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
    assert cluster.controller.id == cluster.nodes[0].id
    with KafkaAdminClient(bootstrap_servers=bootstrap) as other:
        described = other.describe_cluster()
    assert described["cluster_id"] == cluster.cluster_id


def test_broker_settings_can_be_read(admin: AdminClient) -> None:
    (node,) = admin.describe_cluster().result(PATIENCE_S).nodes
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node.id))]).values()
    found = future.result(PATIENCE_S)
    assert found["log.segment.bytes"].value == "1073741824"
    assert found["auto.create.topics.enable"].value == "true"


@pytest.mark.parametrize(
    ("name", "partitions", "configs", "expected"),
    [
        ("a/b", 1, {}, "TOPIC_EXCEPTION"),
        ("x" * 250, 1, {}, "TOPIC_EXCEPTION"),
        ("fine-1", 0, {}, "INVALID_PARTITIONS"),
        ("fine-2", 1, {"retention.ms": "soon"}, "INVALID_CONFIG"),
        ("fine-3", 1, {"no.such.setting": "1"}, "INVALID_CONFIG"),
    ],
)
def test_bad_topics_are_refused(
    admin: AdminClient, name: str, partitions: int, configs: dict[str, str], expected: str
) -> None:
    future = admin.create_topics([NewTopic(name, partitions, config=configs)])[name]
    assert error_of(lambda: future.result(PATIENCE_S)) == expected
    assert name not in admin.list_topics(timeout=PATIENCE_S).topics


def test_a_topic_is_not_made_twice(admin: AdminClient, unique: Unique) -> None:
    topic = make_topic(admin, unique("once"))
    again = admin.create_topics([NewTopic(topic, 1)])[topic]
    assert error_of(lambda: again.result(PATIENCE_S)) == "TOPIC_ALREADY_EXISTS"


def test_validation_creates_nothing(admin: AdminClient, unique: Unique) -> None:
    name = unique("unmade")
    admin.create_topics([NewTopic(name, 1)], validate_only=True)[name].result(PATIENCE_S)
    assert name not in admin.list_topics(timeout=PATIENCE_S).topics


def test_the_append_time_can_be_the_brokers(
    admin: AdminClient, bootstrap: str, unique: Unique
) -> None:
    topic = make_topic(admin, unique("stamped"), message_timestamp_type="LogAppendTime")
    for codec in ("none", "lz4"):
        PEERS[0](bootstrap).produce(
            topic, [Message(b"x" * 50, timestamp_ms=1000, partition=0)] * 3, compression=codec
        )
    read = PEERS[0](bootstrap).consume(topic, 0, 6)
    assert all((each.timestamp_ms or 0) > 1_700_000_000_000 for each in read)


def refused(bootstrap: str, topic: str, value: bytes, key: bytes | None = None) -> str | None:
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 5_000_000})
    errors: list[KafkaError | None] = []
    producer.produce(topic, value, key, on_delivery=lambda error, _: errors.append(error))
    producer.flush(PATIENCE_S)
    (error,) = errors
    return None if error is None else error.name()


def test_a_message_can_be_too_large(admin: AdminClient, bootstrap: str, unique: Unique) -> None:
    topic = make_topic(admin, unique("small"), max_message_bytes="10000")
    assert refused(bootstrap, topic, b"x" * 20_000) == "MSG_SIZE_TOO_LARGE"
    assert refused(bootstrap, topic, b"x" * 5_000) is None


def test_a_compacted_topic_wants_keys(admin: AdminClient, bootstrap: str, unique: Unique) -> None:
    topic = make_topic(admin, unique("keyed"), cleanup_policy="compact")
    assert refused(bootstrap, topic, b"x") == "INVALID_RECORD"
    assert refused(bootstrap, topic, b"x", b"k") is None


def test_groups_can_be_listed_described_changed_and_deleted(
    admin: AdminClient, bootstrap: str, unique: Unique
) -> None:
    topic, group = make_topic(admin, unique("t"), partitions=2), unique("g")
    write(bootstrap, topic, 10)
    consumer = consumer_of(bootstrap, group)
    consumer.subscribe([topic])
    poll_until([consumer], lambda: len(consumer.assignment()) == 2)
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)

    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert {each.group_id: each.state for each in listed.valid}[group] == ConsumerGroupState.STABLE
    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    (member,) = described.members
    assert {each.partition for each in member.assignment.topic_partitions} == {0, 1}
    deletion = admin.delete_consumer_groups([group])[group]
    assert error_of(lambda: deletion.result(PATIENCE_S)) == "NON_EMPTY_GROUP"
    consumer.close()

    asked = ConsumerGroupTopicPartitions(group)
    (found,) = admin.list_consumer_group_offsets([asked]).values()
    kept = {each.partition: each.offset for each in found.result(PATIENCE_S).topic_partitions}
    assert kept[0] == 7
    changed = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])
    (future,) = admin.alter_consumer_group_offsets([changed]).values()
    future.result(PATIENCE_S)
    (found,) = admin.list_consumer_group_offsets([asked]).values()
    assert {each.partition: each.offset for each in found.result(PATIENCE_S).topic_partitions}[
        0
    ] == 3
    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert group not in {each.group_id for each in listed.valid}


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_every_assignment_strategy_spreads_partitions(
    admin: AdminClient, bootstrap: str, unique: Unique, strategy: str
) -> None:
    topic, group = make_topic(admin, unique("t"), partitions=6), unique("g")
    consumers = [
        consumer_of(bootstrap, group, partition_assignment_strategy=strategy) for _ in range(3)
    ]
    try:
        for each in consumers:
            each.subscribe([topic])
        poll_until(consumers, lambda: [len(each.assignment()) for each in consumers] == [2, 2, 2])
        owned = [where.partition for each in consumers for where in each.assignment()]
        assert sorted(owned) == list(range(6))
    finally:
        for each in consumers:
            each.close()


def test_a_static_member_comes_back_to_its_partitions(
    admin: AdminClient, bootstrap: str, unique: Unique
) -> None:
    topic, group = make_topic(admin, unique("t"), partitions=4), unique("g")

    def start(instance: str) -> Consumer:
        made = consumer_of(bootstrap, group, group_instance_id=instance)
        made.subscribe([topic])
        return made

    first, second = start("one"), start("two")
    poll_until([first, second], lambda: len(first.assignment()) == len(second.assignment()) == 2)
    before = sorted(each.partition for each in second.assignment())
    second.close()  # a static member does not leave
    second = start("two")
    poll_until([first, second], lambda: len(second.assignment()) == 2)
    assert sorted(each.partition for each in second.assignment()) == before
    assert len(first.assignment()) == 2
    first.close()
    second.close()


def test_a_pattern_finds_topics_that_come_later(
    admin: AdminClient, bootstrap: str, unique: Unique
) -> None:
    prefix, group = unique("pattern"), unique("g")
    make_topic(admin, f"{prefix}-a")
    consumer = consumer_of(bootstrap, group, topic_metadata_refresh_interval_ms=200)
    consumer.subscribe([f"^{prefix}-.*"])
    poll_until([consumer], lambda: len(consumer.assignment()) == 1)
    make_topic(admin, f"{prefix}-b")
    poll_until([consumer], lambda: len(consumer.assignment()) == 2)
    consumer.close()
