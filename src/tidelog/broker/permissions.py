"""What a client must be allowed, as a fact of each handler:

    @handles(HeartbeatRequest, "0-4", allow=group(READ, "group_id"))

The dispatcher asks before the handler runs, on a broker that has access rules, and answers a refusal with its code at the
top of the response.  `by_item` leaves it to the handler, which asks `ctx.may` or `ctx.check` for each topic or group of the
request: because each gets an answer of its own, or because the response has no place for an error of the whole.

The operations are Kafka's, see "Operations and Resources on Protocols" in its documentation.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from tidelog.broker.context import Context
from tidelog.errors import KafkaError
from tidelog.security.acls import CLUSTER, Operation, Resource

Allow = Callable[[Any, Context], None]
"""(request, context); raises what the client is refused with."""

READ = Operation.READ
WRITE = Operation.WRITE
CREATE = Operation.CREATE
DELETE = Operation.DELETE
ALTER = Operation.ALTER
DESCRIBE = Operation.DESCRIBE
CLUSTER_ACTION = Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS = Operation.DESCRIBE_CONFIGS
ALTER_CONFIGS = Operation.ALTER_CONFIGS
IDEMPOTENT_WRITE = Operation.IDEMPOTENT_WRITE


def anybody(request: Any, ctx: Context) -> None:
    """Nothing in the answer is worth hiding."""


def by_item(request: Any, ctx: Context) -> None:
    """The handler asks, for each thing that is named in the request or in the answer."""


@cache
def cluster(operation: Operation) -> Allow:
    """Who may do this to the cluster; the same function for the same operation."""

    def allow(request: Any, ctx: Context) -> None:
        ctx.check(operation, CLUSTER)

    return allow


def group(operation: Operation, field: str) -> Allow:
    """Who may do this to the group that `field` names."""

    def allow(request: Any, ctx: Context) -> None:
        ctx.check(operation, Resource.group(getattr(request, field)))

    return allow


def transactional_id(operation: Operation, field: str) -> Allow:
    """Who may do this to the transactional id in `field`."""

    def allow(request: Any, ctx: Context) -> None:
        ctx.check(operation, Resource.transaction(getattr(request, field)))

    return allow


def all_of(*parts: Allow) -> Allow:
    """Who may do all of it; the first refusal is told."""

    def allow(request: Any, ctx: Context) -> None:
        for each in parts:
            each(request, ctx)

    return allow


def maybe_refused(ctx: Context, operation: Operation, resource: Resource) -> KafkaError | None:
    """The error for who may not; None for who may."""
    try:
        ctx.check(operation, resource)
    except KafkaError as error:
        return error.kept()
    return None
