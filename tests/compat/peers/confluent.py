"""confluent-kafka (librdkafka): the classic group protocol, and the one of KIP-848."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Received
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from peers.base import PATIENCE_S, Member, Message, Peer


class Confluent(Peer):
    name = "confluent-kafka"
    group_settings: ClassVar[Mapping[str, str | int]] = {"session.timeout.ms": 6000}

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        # Held, because its futures fail when the client is collected before they are done.
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        compression: str = "none",
        idempotent: bool = False,
    ) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "compression.type": compression,
                "enable.idempotence": idempotent,
                "linger.ms": 5,
            }
        )
        failed: list[object] = []

        def delivered(error: KafkaError | None, _: Received) -> None:
            if error is not None:
                failed.append(error)

        for message in messages:
            optional: dict[str, int] = {}
            if message.timestamp_ms is not None:
                optional["timestamp"] = message.timestamp_ms
            if message.partition is not None:
                optional["partition"] = message.partition
            producer.produce(
                topic,
                message.value,
                message.key,
                headers=list(message.headers),
                on_delivery=delivered,
                **optional,
            )
        assert producer.flush(PATIENCE_S) == 0, "not everything was acknowledged"
        assert not failed, failed

    def consume(self, topic: str, partition: int, count: int) -> list[Message]:
        return self._read(TopicPartition(topic, partition, 0), count)

    def consume_from(
        self, topic: str, partition: int, timestamp_ms: int, count: int
    ) -> list[Message]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "lookup"})
        try:
            where = TopicPartition(topic, partition, timestamp_ms)
            (found,) = consumer.offsets_for_times([where], timeout=PATIENCE_S)
        finally:
            consumer.close()
        return self._read(found, count)

    def member(self, group: str, topic: str) -> Member:
        return _Member(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **self.group_settings,
            },
            topic,
        )

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        new = NewTopic(topic, num_partitions=partitions, config=dict(configs or {}))
        self._admin.create_topics([new])[topic].result(PATIENCE_S)

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(PATIENCE_S)

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=PATIENCE_S).topics)

    def topic_configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (future,) = self._admin.describe_configs([resource]).values()
        return {name: entry.value for name, entry in future.result(PATIENCE_S).items()}

    def alter_topic_config(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        (future,) = self._admin.incremental_alter_configs([resource]).values()
        future.result(PATIENCE_S)

    def _read(self, start: TopicPartition, count: int) -> list[Message]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        try:
            consumer.assign([start])
            read: list[Message] = []
            while len(read) < count:
                some = consumer.consume(count - len(read), PATIENCE_S)
                assert some, f"only {len(read)} of {count} messages came"
                read += [_message(each) for each in some]
            return read
        finally:
            consumer.close()


class ConfluentNextGeneration(Confluent):
    """The same client with the group protocol of KIP-848: the broker assigns the partitions."""

    name = "confluent-kafka, group.protocol=consumer"
    group_settings: ClassVar[Mapping[str, str | int]] = {"group.protocol": "consumer"}


class _Member(Member):
    def __init__(self, settings: Mapping[str, object], topic: str) -> None:
        self.settings = settings
        self.topic = topic
        super().__init__()

    def _run(self) -> None:
        consumer = Consumer(self.settings)
        try:
            consumer.subscribe([self.topic])
            while not self._closing.is_set():
                self._see([_message(each) for each in consumer.consume(100, 0.05)])
                self._own([each.partition for each in consumer.assignment()])
            if self._messages:
                consumer.commit(asynchronous=False)
        finally:
            consumer.close()


def _message(received: Received) -> Message:
    if received.error() is not None:
        raise KafkaException(received.error())
    return Message(
        value=received.value(),
        key=received.key(),
        headers=tuple((name, value or b"") for name, value in received.headers() or ()),
        timestamp_ms=received.timestamp()[1],
        partition=received.partition(),
        offset=received.offset(),
    )
