"""Which operations a client may do, as the bit fields that Metadata and the like carry (KIP-430)."""

from tidelog.broker.acl_messages import OPERATIONS
from tidelog.broker.context import Context
from tidelog.security.acls import CLUSTER, Operation, Resource, ResourceType

NOT_ASKED = -2147483648
"""What the field holds where the client did not ask."""

_OPERATIONS = {
    **OPERATIONS,
    # Without those on a group's settings.
    ResourceType.GROUP: frozenset({Operation.READ, Operation.DELETE, Operation.DESCRIBE}),
}
_ALL = {kind: sum(1 << each for each in known) for kind, known in _OPERATIONS.items()}


def authorized_operations(ctx: Context, resource: Resource) -> int:
    """What the client may do to `resource`."""
    if ctx.broker.authorizer.is_open:
        return _ALL[resource.type]
    return sum(
        1 << each for each in _OPERATIONS[resource.type] if ctx.may(each, resource, quietly=True)
    )


def cluster_operations(ctx: Context) -> int:
    """What the client may do to the cluster; nothing is told to who may not describe it, as in Kafka."""
    if not ctx.may(Operation.DESCRIBE, CLUSTER, quietly=True):
        return 0
    return authorized_operations(ctx, CLUSTER)
