"""Access rules and filters, between Kafka's messages and ours; what does not fit is refused with its value."""

from ipaddress import ip_address
from typing import Protocol, TypeVar

from tidelog.errors import InvalidRequest
from tidelog.names import check_topic_name
from tidelog.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Filter,
    Match,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    plain_host,
)

_ANY = 1

E = TypeVar("E", ResourceType, PatternType, Operation, Permission)

_OF_TOPICS = frozenset(
    {
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    }
)
OPERATIONS = {
    ResourceType.TOPIC: _OF_TOPICS,
    ResourceType.GROUP: frozenset(
        {
            Operation.READ,
            Operation.DELETE,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    ResourceType.CLUSTER: frozenset(
        {
            Operation.CREATE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        }
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset({Operation.WRITE, Operation.DESCRIBE}),
    ResourceType.DELEGATION_TOKEN: frozenset({Operation.DESCRIBE}),
    ResourceType.USER: frozenset({Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS}),
}
"""What can be done to a resource of each kind; a rule for anything else would never be asked."""


class Creation(Protocol):
    """As `AclCreation`."""

    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class Asked(Protocol):
    """As `DeleteAclsFilter` and `DescribeAclsRequest`."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def acl_of(each: Creation) -> Acl:
    """The rule that is to be made; `InvalidRequest` says what is wrong with it."""
    acl = Acl(
        _number(ResourceType, each.resource_type, "resource type"),
        each.resource_name,
        _number(PatternType, each.resource_pattern_type, "pattern type"),
        each.principal,
        each.host,
        _number(Operation, each.operation, "operation"),
        _number(Permission, each.permission_type, "permission type"),
    )
    kind, _, name = acl.principal.partition(":")
    if not kind or not name:
        raise InvalidRequest(f"principal {acl.principal!r} must be written as User:name")
    if not acl.name:
        raise InvalidRequest("the resource has no name")
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise InvalidRequest(f"the only cluster resource is {CLUSTER_NAME}, not {acl.name!r}")
    if acl.resource_type is ResourceType.TOPIC and acl.name != WILDCARD:
        check_topic_name(acl.name)
    if acl.operation is not Operation.ALL and acl.operation not in OPERATIONS[acl.resource_type]:
        raise InvalidRequest(
            f"{acl.operation.name} is not done to a {acl.resource_type.name.lower()}"
        )
    _check_host(acl.host)
    return acl._replace(host=plain_host(acl.host))


def filter_of(each: Asked) -> Filter:
    """Which rules are asked for."""
    pattern: PatternType | Match | None
    if each.pattern_type_filter == Match.MATCH:
        pattern = Match.MATCH
    else:
        pattern = _maybe(PatternType, each.pattern_type_filter, "pattern type")
    return Filter(
        _maybe(ResourceType, each.resource_type_filter, "resource type"),
        each.resource_name_filter,
        pattern,
        each.principal_filter,
        None if each.host_filter is None else plain_host(each.host_filter),
        _maybe(Operation, each.operation, "operation"),
        _maybe(Permission, each.permission_type, "permission type"),
    )


def _check_host(host: str) -> None:
    if host == WILDCARD:
        return
    try:
        ip_address(host)
    except ValueError:
        raise InvalidRequest(f"host {host!r} must be an address, or * for any") from None


def _number(kind: type[E], number: int, what: str) -> E:
    try:
        return kind(number)
    except ValueError:
        raise InvalidRequest(f"{what} {number} is not one that a rule can have") from None


def _maybe(kind: type[E], number: int, what: str) -> E | None:
    return None if number == _ANY else _number(kind, number, what)
