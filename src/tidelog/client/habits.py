"""What people who come from another client write: understood where it can mean one thing only, else answered with our word.

Other names of a setting stand with the setting (`also`), because they are understood.  Here is the rest: settings that we
have none for, methods under another name, and topics as a consumer's first arguments.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from tidelog.errors import SettingsError

T = TypeVar("T")

SETTINGS = {
    "api.version": "leave it out: every broker is asked what it speaks",
    "api.version.request": "leave it out: every broker is asked what it speaks",
    "broker.version.fallback": "leave it out: every broker is asked what it speaks",
    "batch.num.messages": "a batch is bounded by batch_size, in bytes",
    "queue.buffering.max.messages": "what waits is bounded by buffer_memory, in bytes",
    "consumer.timeout.ms": "use poll(timeout=seconds), which returns what there is",
    "enable.partition.eof": "compare position(topic, partition) with find_offsets",
    "ssl.check.hostname": "ssl_endpoint_identification_algorithm is 'https' or 'none'",
    "ssl.context": "give ssl_ca_location, ssl_certificate_location and ssl_key_location",
    "oauth.cb": "sasl_oauth_token_provider takes a function without arguments",
    "error.cb": "errors are raised by the call that meets them, and logged under 'tidelog'",
    "stats.cb": "metrics() returns what the client has measured",
    "statistics.interval.ms": "metrics() returns what the client has measured",
    "logger": "the clients log under 'tidelog' with Python's logging",
    "debug": "set the level of the logger 'tidelog.client'",
    "loop": "a client of tidelog.aio uses the loop that runs",
    "group.name": "group_id is the group's name",
    "delivery.report.only.error": "on_delivery is told of every record; look at its error",
    "go.events": "that is of another language's client",
}
"""By Kafka-like name, what to do instead."""

_CONSUMER = {
    "consume": "poll(timeout, max_records) returns a list",
    "list_topics": "Admin(...).list_topics()",
    "get_watermark_offsets": "find_offsets, or Admin(...).watermarks(topic)",
    "offsets_for_times": "find_offsets({partition: milliseconds})",
    "beginning_offsets": "find_offsets({partition: -2})",
    "end_offsets": "find_offsets({partition: -1})",
    "partitions_for_topic": "Admin(...).describe_topics([topic])",
    "assignment": "assigned()",
    "store_offsets": "commit({partition: offset})",
}
_PRODUCER = {
    "produce": "send(topic, value, key=…, on_delivery=…)",
    "poll": "nothing need be polled: a thread, or the loop, delivers by itself",
    "list_topics": "Admin(...).list_topics()",
    "send_and_wait": "send(…).result(), and `await (await send(…))` with tidelog.aio",
    "purge": "close(timeout=0), which raises what was not delivered",
    "send_offsets_to_transaction": "send_offsets(offsets, consumer.group_metadata())",
}
_ANY = {
    "start": "a client begins with its first call; `async with` closes it",
    "stop": "close()",
}

METHODS: dict[str, dict[str, str]] = {
    "Consumer": _ANY | _CONSUMER,
    "AsyncConsumer": _ANY | _CONSUMER,
    "Producer": _ANY | _PRODUCER,
    "AsyncProducer": _ANY | _PRODUCER,
    "Admin": _ANY,
    "AsyncAdmin": _ANY,
}
"""By class, what other clients call something, and what we do."""


class Elsewhere:
    """An attribute that another client has, and ours has not: whoever asks for it is told what there is."""

    def __init__(self, name: str, instead: str) -> None:
        self._name = name
        self._instead = instead
        self.__doc__ = f"Not here; {instead}."

    def __get__(self, instance: object, owner: type[Any]) -> "Elsewhere":
        if instance is None:
            return self
        kind = owner.__name__.removeprefix("Async")
        raise AttributeError(
            f"{kind!r} object has no attribute {self._name!r}; {self._instead}",
            name=self._name,
            obj=instance,
        )


def answering(cls: type[T]) -> type[T]:
    """Have a client answer for what other clients call its methods.

    Not by `__getattr__`: that would make every attribute slower to find, 75 ns in each `send`.
    """
    for name, instead in METHODS[cls.__name__].items():
        setattr(cls, name, Elsewhere(name, instead))
    return cls


def topics_first(
    config: Mapping[str, Any] | str | Iterable[str] | None, more: tuple[str, ...], topics: Any
) -> tuple[Mapping[str, Any] | None, Any]:
    """A consumer's settings and topics, if it may have been given its topics first: `Consumer("orders", …)`."""
    if config is None or isinstance(config, Mapping):
        if more:
            raise SettingsError(f"{more[0]!r}: topics after a mapping are given as topics=[…]")
        return config, topics
    if topics is not None:
        raise SettingsError(f"topics are given twice: {config!r} and topics={topics!r}")
    return None, [*([config] if isinstance(config, str) else config), *more]
