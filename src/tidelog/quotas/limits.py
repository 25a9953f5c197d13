"""Which limit holds for a client: eight levels of precedence, from the most to the least specific.

    limits = Limits({Entity(user="alice", client_id=DEFAULT): {"producer_byte_rate": 1e6}})
    limit = limits.find("producer_byte_rate", user="alice", client_id="billing")
    limit.value, limit.group

All connections of a group share its limit.  A level that speaks of users alone puts all clients of a user into one
group, one that speaks of client ids alone puts all users of a client id into one.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.dataclass import dataclass
from tidelog.errors import InvalidRequest

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

CLIENT_KEYS = frozenset(
    {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE}
)
IP_KEYS = frozenset({CONNECTION_CREATION_RATE})

DEFAULT = "<default>"
"""In an entity: everybody for whom nothing more specific is said."""


class Entity(NamedTuple):
    """Whom a limit is given to; None where the entity does not speak of it."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __str__(self) -> str:
        named = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        told = [f"{kind}={name}" for kind, name in named.items() if name is not None]
        return ", ".join(told) or "the settings"

    def check(self) -> None:
        """Raise `InvalidRequest` unless Kafka knows such an entity."""
        if self.ip is not None and (self.user is not None or self.client_id is not None):
            raise InvalidRequest("a quota for an ip cannot name a user or a client-id too")
        if self == Entity():
            raise InvalidRequest("a quota must name a user, a client-id or an ip")


BY_SETTING = Entity()
"""Nobody: a limit that comes from the broker's settings."""

Group = tuple[str, str]
"""User and client id whose connections share a limit; "" where the level does not tell them apart."""


class Limit(NamedTuple):
    value: float
    group: Group
    entity: Entity
    """Whom the limit was given to; many groups may have theirs from one entity."""


Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits of the cluster; immutable, replaced when one changes."""

    by_entity: Mapping[Entity, Values]

    def find(self, key: str, user: str, client_id: str) -> Limit | None:
        """The limit that holds for this client, None for none."""
        for entity, group in _levels(user, client_id):
            values = self.by_entity.get(entity)
            if values is not None and key in values:
                return Limit(values[key], group, entity)
        return None

    def gives(self, key: str, limit: Limit) -> bool:
        """Whether a limit that was found before is still given to its entity; those of settings do not change."""
        return (
            limit.entity == BY_SETTING
            or self.by_entity.get(limit.entity, {}).get(key) == limit.value
        )

    def connection_rate(self, ip: str) -> float | None:
        """New connections a second that an address may make."""
        for name in (ip, DEFAULT):
            value = self.by_entity.get(Entity(ip=name), {}).get(CONNECTION_CREATION_RATE)
            if value is not None:
                return value
        return None

    def has(self, *keys: str) -> bool:
        """Whether anybody at all is limited in one of these."""
        return any(key in values for values in self.by_entity.values() for key in keys)


def _levels(user: str, client_id: str) -> tuple[tuple[Entity, Group], ...]:
    """The eight levels of the manual (4.9), the strongest first."""
    both, by_user, by_client = (user, client_id), (user, ""), ("", client_id)
    return (
        (Entity(user, client_id), both),
        (Entity(user, DEFAULT), both),
        (Entity(user), by_user),
        (Entity(DEFAULT, client_id), both),
        (Entity(DEFAULT, DEFAULT), both),
        (Entity(DEFAULT), by_user),
        (Entity(client_id=client_id), by_client),
        (Entity(client_id=DEFAULT), by_client),
    )


def check_value(entity: Entity, key: str, value: float) -> None:
    """Raise `InvalidRequest` unless `key` may be set to `value` for `entity`."""
    known = IP_KEYS if entity.ip is not None else CLIENT_KEYS
    if key not in known:
        raise InvalidRequest(f"unknown quota {key!r}; these are known: {', '.join(sorted(known))}")
    if not 0 < value < float("inf"):
        raise InvalidRequest(f"quota {key}={value:g} must be a number above 0")
    if key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE) and value != int(value):
        raise InvalidRequest(f"quota {key}={value:g} must be a whole number of bytes a second")
