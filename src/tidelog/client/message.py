"""A record as a consumer receives it."""

from typing import Any, NamedTuple

from tidelog.names import TopicPartition


class Message(NamedTuple):
    """One record, where it stands, and what it says."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def payload(self) -> Any:
        """The value, by the first name it had."""
        return self.value
