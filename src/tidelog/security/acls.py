"""Access rules in Kafka's model: who (principal, from which host) may or may not do what (operation) to which resources.

    rules = Rules(acls)
    rules.allows(User("alice"), "10.0.0.7", Operation.READ, Resource(ResourceType.TOPIC, "orders"))

A rule names a resource literally, by the wildcard `*`, or by a prefix.  A deny wins over every allow.  Without any rule
for a resource nobody but super users may touch it, unless `allow_if_no_acl` is set.  READ, WRITE, DELETE and ALTER include
DESCRIBE, and ALTER_CONFIGS includes DESCRIBE_CONFIGS, for allowing; a deny denies what it says.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

WILDCARD = "*"
ANYBODY = "User:*"


class ResourceType(IntEnum):
    """As Kafka numbers them."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(IntEnum):
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"

_INCLUDED_IN: Mapping[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}


class Resource(NamedTuple):
    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> "Resource":
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def group(cls, name: str) -> "Resource":
        return cls(ResourceType.GROUP, name)

    @classmethod
    def transaction(cls, name: str) -> "Resource":
        """A transactional id."""
        return cls(ResourceType.TRANSACTIONAL_ID, name)


CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


class Acl(NamedTuple):
    """One rule."""

    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    """As Kafka writes it, `User:alice`; `User:*` is everybody."""
    host: str
    """An address, or `*`."""
    operation: Operation
    permission: Permission

    def concerns(self, principal: str, host: str) -> bool:
        return self.principal in (principal, ANYBODY) and self.host in (host, WILDCARD)

    def covers(self, operation: Operation) -> bool:
        """Whether the rule speaks of this operation."""
        if self.operation in (operation, Operation.ALL):
            return True
        included_in = _INCLUDED_IN.get(operation, frozenset())
        return self.permission is Permission.ALLOW and self.operation in included_in


class Rules:
    """All access rules, arranged so that a question costs what the name's length costs, not the number of rules."""

    def __init__(
        self,
        acls: Iterable[Acl] = (),
        *,
        super_users: Iterable[str] = (),
        allow_if_no_acl: bool = False,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._literal: dict[tuple[ResourceType, str], list[Acl]] = {}
        self._prefixed: dict[tuple[ResourceType, str], list[Acl]] = {}
        self._prefix_lengths: dict[ResourceType, list[int]] = {}
        for acl in acls:
            where = self._literal if acl.pattern is PatternType.LITERAL else self._prefixed
            where.setdefault((acl.resource_type, acl.name), []).append(acl)
        for resource_type, name in self._prefixed:
            lengths = self._prefix_lengths.setdefault(resource_type, [])
            if len(name) not in lengths:
                lengths.append(len(name))

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether this principal, who comes from `host`, may do this."""
        if principal in self._super_users:
            return True
        found = self._for(resource)
        if not found:
            return self._allow_if_no_acl
        allowed = False
        for acl in found:
            if acl.concerns(principal, host) and acl.covers(operation):
                if acl.permission is Permission.DENY:
                    return False
                allowed = True
        return allowed

    def allows_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there is any resource of this type that the principal may do this to.

        An idempotent producer may have an id if it may write to some topic (KIP-679).
        """
        if principal in self._super_users:
            return True
        tables = (self._literal, self._prefixed)
        concerned = [
            acl
            for table in tables
            for (kind, _), acls in table.items()
            if kind is resource_type
            for acl in acls
            if acl.concerns(principal, host) and acl.covers(operation)
        ]
        denied = [each for each in concerned if each.permission is Permission.DENY]
        if any(each.pattern is PatternType.LITERAL and each.name == WILDCARD for each in denied):
            return False
        allowed = [each for each in concerned if each.permission is Permission.ALLOW]
        if any(not _is_denied(each, denied) for each in allowed):
            return True
        return self._allow_if_no_acl

    def _for(self, resource: Resource) -> list[Acl]:
        kind, name = resource
        found = self._literal.get((kind, name), [])
        everything = self._literal.get((kind, WILDCARD))
        if everything and name != WILDCARD:
            found = found + everything
        for length in self._prefix_lengths.get(kind, ()):
            prefixed = self._prefixed.get((kind, name[:length])) if length <= len(name) else None
            if prefixed:
                found = found + prefixed
        return found


class Filter(NamedTuple):
    """Which rules somebody asks for; None is any."""

    resource_type: ResourceType | None = None
    name: str | None = None
    pattern: "PatternType | Match | None" = None
    principal: str | None = None
    host: str | None = None
    operation: Operation | None = None
    permission: Permission | None = None

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (None, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (None, acl.operation)
            and self.permission in (None, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if isinstance(self.pattern, PatternType) and self.pattern is not acl.pattern:
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern is not Match.MATCH:
            return False
        if acl.pattern is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name == WILDCARD


class Match(IntEnum):
    """Kafka's number of the filter that finds every rule which applies to a name."""

    MATCH = 2


def _is_denied(allowed: Acl, denied: list[Acl]) -> bool:
    """Whether a deny covers everything that `allowed` allows."""
    everywhere = allowed.pattern is PatternType.LITERAL and allowed.name == WILDCARD
    for each in denied:
        prefixed = each.pattern is PatternType.PREFIXED
        if prefixed and allowed.name.startswith(each.name) and not everywhere:
            return True
        if each.pattern is allowed.pattern is PatternType.LITERAL and each.name == allowed.name:
            return True
    return False


def plain_host(host: str) -> str:
    """An address as rules write it.

    A socket for IPv4 and IPv6 tells 10.0.0.7 as ::ffff:10.0.0.7; a rule, above all a deny, has to hold for both.
    """
    if host.isascii() and host.replace(".", "").isdigit():
        return host  # as nearly all are
    from ipaddress import ip_address

    try:
        address = ip_address(host)
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
