"""kafka-python 3."""

from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from peers.base import PATIENCE_S, Member, Message, Peer


class KafkaPython(Peer):
    name = "kafka-python"

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        compression: str = "none",
        idempotent: bool = False,
    ) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if compression == "none" else compression,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=5,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            for future in futures:
                future.get(PATIENCE_S)
        finally:
            producer.close()

    def consume(self, topic: str, partition: int, count: int) -> list[Message]:
        return self._read(topic, partition, None, count)

    def consume_from(
        self, topic: str, partition: int, timestamp_ms: int, count: int
    ) -> list[Message]:
        return self._read(topic, partition, timestamp_ms, count)

    def member(self, group: str, topic: str) -> Member:
        return _Member(self.bootstrap, group, topic)

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        wanted = {"num_partitions": partitions, "configs": dict(configs or {})}
        with KafkaAdminClient(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics({topic: wanted})

    def delete_topic(self, topic: str) -> None:
        with KafkaAdminClient(bootstrap_servers=self.bootstrap) as admin:
            admin.delete_topics([topic])

    def topics(self) -> set[str]:
        with KafkaAdminClient(bootstrap_servers=self.bootstrap) as admin:
            return set(admin.list_topics())

    def topic_configs(self, topic: str) -> dict[str, str]:
        with KafkaAdminClient(bootstrap_servers=self.bootstrap) as admin:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            found = admin.describe_configs([resource], config_filter="all")
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    def alter_topic_config(self, topic: str, name: str, value: str) -> None:
        with KafkaAdminClient(bootstrap_servers=self.bootstrap) as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])

    def _read(self, topic: str, partition: int, since_ms: int | None, count: int) -> list[Message]:
        where = TopicPartition(topic, partition)
        with KafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False) as consumer:
            consumer.assign([where])
            if since_ms is None:
                consumer.seek_to_beginning(where)
            else:
                consumer.seek(where, consumer.offsets_for_times({where: since_ms})[where].offset)
            read: list[Message] = []
            while len(read) < count:
                some = consumer.poll(int(PATIENCE_S * 1000), max_records=count - len(read))
                assert some, f"only {len(read)} of {count} messages came"
                read += [_message(each) for each in some[where]]
            return read


class _Member(Member):
    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.bootstrap, self.group, self.topic = bootstrap, group, topic
        super().__init__()

    def _run(self) -> None:
        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
        )
        try:
            while not self._closing.is_set():
                for some in consumer.poll(50).values():
                    self._see([_message(each) for each in some])
                self._own([each.partition for each in consumer.assignment()])
            if self._messages:
                consumer.commit()
        finally:
            consumer.close()


def _message(record: Any) -> Message:
    return Message(
        value=record.value,
        key=record.key,
        headers=tuple(record.headers),
        timestamp_ms=record.timestamp,
        partition=record.partition,
        offset=record.offset,
    )
