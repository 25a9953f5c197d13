"""Under which subject a message's schema is registered: by topic, by the record's name, or by both.

The names are those of Confluent's strategies.
"""

from collections.abc import Callable

from tidelog.errors import SettingsError

Strategy = Callable[[str | None, str, str | None], str]
"""Topic, "key" or "value", the record's full name → the subject."""


def topic_name(topic: str | None, field: str, record: str | None) -> str:
    """`orders-value`: one kind of message in a topic.  The default."""
    return f"{_needed('topic', topic)}-{field}"


def record_name(topic: str | None, field: str, record: str | None) -> str:
    """`shop.Order`: a kind of message evolves in one way, in whatever topic."""
    return _needed("record name", record)


def topic_record_name(topic: str | None, field: str, record: str | None) -> str:
    """`orders-shop.Order`: several kinds of message in a topic."""
    return f"{_needed('topic', topic)}-{_needed('record name', record)}"


def _needed(what: str, value: str | None) -> str:
    if not value:
        raise SettingsError(
            f"the subject needs a {what}: give the serializer topic=, subject= or another strategy"
        )
    return value
