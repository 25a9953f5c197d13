"""tidelog: a distributed log that speaks Kafka's wire protocol.

`Producer`, `Consumer`, `SimpleConsumer` and `Admin` are the blocking clients, `read` and `scan` give a part of a topic as
Arrow tables; `tidelog.aio` has all of them for asyncio.  They are imported when first used, so that importing the package costs nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.blocking_consumer import Consumer
    from tidelog.client.blocking_producer import Producer
    from tidelog.client.dead_letters import DeadLetters
    from tidelog.client.message import BadMessage, Message
    from tidelog.client.reading import read, scan
    from tidelog.client.simple import SimpleConsumer
    from tidelog.names import TopicPartition

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "BadMessage",
    "Consumer",
    "DeadLetters",
    "Message",
    "Producer",
    "SimpleConsumer",
    "TopicPartition",
    "read",
    "scan",
]

_HOMES = {
    "Admin": "tidelog.client.admin",
    "BadMessage": "tidelog.client.message",
    "Consumer": "tidelog.client.blocking_consumer",
    "DeadLetters": "tidelog.client.dead_letters",
    "Message": "tidelog.client.message",
    "Producer": "tidelog.client.blocking_producer",
    "read": "tidelog.client.reading",
    "scan": "tidelog.client.reading",
    "SimpleConsumer": "tidelog.client.simple",
    "TopicPartition": "tidelog.names",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
