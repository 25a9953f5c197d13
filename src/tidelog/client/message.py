"""A record as a consumer receives it, or cannot read it."""

from typing import Any, NamedTuple

from tidelog.errors import TidelogError
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


class BadMessage(TidelogError):
    """A message that its deserializer refused: where it stands, its bytes as `message`, and why as `__cause__`."""

    def __init__(self, message: Message, cause: Exception) -> None:
        super().__init__(
            f"the message of {message.topic_partition} at offset {message.offset} cannot be read "
            f"({type(cause).__name__}: {cause}); the next call goes on behind it, seek() comes back to it, and on_bad= "
            "decides for all such messages"
        )
        self.__cause__ = cause
        self.message = message
        self.topic = message.topic
        self.partition = message.partition
        self.offset = message.offset
