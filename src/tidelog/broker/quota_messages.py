"""Entities of quotas, between Kafka's messages and ours."""

from collections.abc import Iterable

from tidelog.errors import InvalidRequest
from tidelog.quotas.limits import DEFAULT, Entity

_FIELDS = {"user": "user", "client-id": "client_id", "ip": "ip"}


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The entity that a request names; a name of None is the default of its kind."""
    values: dict[str, str] = {}
    for kind, name in parts:
        if kind not in _FIELDS:
            raise InvalidRequest(f"quotas are for {', '.join(_FIELDS)}; {kind!r} is none of them")
        if _FIELDS[kind] in values:
            raise InvalidRequest(f"the quota names {kind} twice")
        if name == "":
            raise InvalidRequest(f"the quota names an empty {kind}")
        values[_FIELDS[kind]] = DEFAULT if name is None else name
    entity = Entity(**values)
    entity.check()
    return entity


def parts_of(entity: Entity) -> list[tuple[str, str | None]]:
    """Kinds and names, as messages have them."""
    named = ((kind, getattr(entity, attribute)) for kind, attribute in _FIELDS.items())
    return [(kind, None if name == DEFAULT else name) for kind, name in named if name is not None]


def kinds() -> tuple[str, ...]:
    return tuple(_FIELDS)
