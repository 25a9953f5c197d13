"""What to do with messages that cannot be read: put them aside, into a topic of their own.

    consumer = Consumer(..., value_deserializer=parse, on_bad=DeadLetters(producer, "orders.dead"))

The reader goes on when the broker has acknowledged the copy.  The producer must have no serializers, and be of the same
kind as the consumer: one of `tidelog.aio` for a consumer of `tidelog.aio`.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, overload

from tidelog.client.message import BadMessage

if TYPE_CHECKING:
    from tidelog.client.blocking_producer import Producer
    from tidelog.client.producer import AsyncProducer

_PREFIX = "dead-letter."


class DeadLetters:
    """Sends bad messages to a topic, as they were, with headers that say where they stood and what was wrong."""

    @overload
    def __init__(self, producer: "Producer", topic: str) -> None: ...
    @overload
    def __init__(self, producer: "AsyncProducer", topic: str) -> None: ...
    def __init__(self, producer: "Producer | AsyncProducer", topic: str) -> None:
        self._producer = producer
        self._topic = topic

    def __call__(self, error: BadMessage) -> Awaitable[None] | None:
        from tidelog.client.blocking_producer import Producer

        if isinstance(self._producer, Producer):
            message = error.message
            self._producer.send(
                self._topic, message.value, key=message.key, headers=_headers(error)
            ).result()
            return None
        return self._send(self._producer, error)

    async def _send(self, producer: "AsyncProducer", error: BadMessage) -> None:
        message = error.message
        await (
            await producer.send(
                self._topic, message.value, key=message.key, headers=_headers(error)
            )
        )


def _headers(error: BadMessage) -> list[tuple[str, bytes | None]]:
    said = {
        "topic": error.topic,
        "partition": error.partition,
        "offset": error.offset,
        "error": f"{type(error.__cause__).__name__}: {error.__cause__}",
    }
    added = [(_PREFIX + name, str(value).encode()) for name, value in said.items()]
    return [*error.message.headers, *added]
