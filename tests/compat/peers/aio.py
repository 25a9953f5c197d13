"""aiokafka; each call runs a loop of its own."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from peers.base import PATIENCE_S, Member, Message, Peer


class AIOKafka(Peer):
    name = "aiokafka"

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        compression: str = "none",
        idempotent: bool = False,
    ) -> None:
        async def run() -> None:
            async with AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if compression == "none" else compression,
                enable_idempotence=idempotent,
                acks="all",
                linger_ms=5,
            ) as producer:
                futures = [
                    await producer.send(
                        topic,
                        message.value,
                        message.key,
                        partition=message.partition,
                        timestamp_ms=message.timestamp_ms,
                        headers=list(message.headers),
                    )
                    for message in messages
                ]
                async with asyncio.timeout(PATIENCE_S):
                    await asyncio.gather(*futures)

        asyncio.run(run())

    def consume(self, topic: str, partition: int, count: int) -> list[Message]:
        return asyncio.run(self._read(topic, partition, None, count))

    def consume_from(
        self, topic: str, partition: int, timestamp_ms: int, count: int
    ) -> list[Message]:
        return asyncio.run(self._read(topic, partition, timestamp_ms, count))

    def member(self, group: str, topic: str) -> Member:
        return _Member(self.bootstrap, group, topic)

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        new = NewTopic(topic, partitions, 1, topic_configs=dict(configs or {}))
        answer = self._admin("create_topics", [new])
        for name, code, text in answer.topic_errors:
            assert code == 0, (name, code, text)

    def delete_topic(self, topic: str) -> None:
        for name, code in self._admin("delete_topics", [topic]).topic_error_codes:
            assert code == 0, (name, code)

    def topics(self) -> set[str]:
        return set(self._admin("list_topics"))

    def topic_configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        ((code, text, _, _, entries),) = self._admin("describe_configs", [resource])[0].resources
        assert code == 0, (code, text)
        return {entry[0]: entry[1] for entry in entries}

    def alter_topic_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        ((code, text, _, _),) = self._admin("alter_configs", [resource])[0].resources
        assert code == 0, (code, text)

    def _admin(self, call: str, *arguments: object) -> Any:
        async def run() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            try:
                return await getattr(admin, call)(*arguments)
            finally:
                await admin.close()

        return asyncio.run(run())

    async def _read(
        self, topic: str, partition: int, since_ms: int | None, count: int
    ) -> list[Message]:
        where = TopicPartition(topic, partition)
        async with AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, enable_auto_commit=False
        ) as consumer:
            consumer.assign([where])
            if since_ms is None:
                await consumer.seek_to_beginning(where)
            else:
                found = await consumer.offsets_for_times({where: since_ms})
                consumer.seek(where, found[where].offset)
            read: list[Message] = []
            async with asyncio.timeout(PATIENCE_S):
                while len(read) < count:
                    read.append(_message(await consumer.getone(where)))
            return read


class _Member(Member):
    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.bootstrap, self.group, self.topic = bootstrap, group, topic
        super().__init__()

    def _run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        async with AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
        ) as consumer:
            while not self._closing.is_set():
                for some in (await consumer.getmany(timeout_ms=50)).values():
                    self._see([_message(each) for each in some])
                self._own([each.partition for each in consumer.assignment()])
            if self._messages:
                await consumer.commit()


def _message(record: Any) -> Message:
    return Message(
        value=record.value,
        key=record.key,
        headers=tuple(record.headers),
        timestamp_ms=record.timestamp,
        partition=record.partition,
        offset=record.offset,
    )
