"""ConsumerGroupHeartbeat (68): a member of a KIP-848 group joins, reconciles and leaves, all by heartbeats.

Versions: 0; 1 regular expressions, and the client makes its member id.  Absent: classic members in the same group.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.group_client import client_of
from tidelog.broker.permissions import DESCRIBE, READ, group
from tidelog.broker.turns import Turns
from tidelog.coordination.groups.consumer.regex import compile_pattern
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.security.acls import Resource

_A_TURN = 20
"""Names that are matched before others have their turn; one takes a millisecond at worst."""


@handles(ConsumerGroupHeartbeatRequest, "0-1", allow=group(READ, "group_id"))
async def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, ctx: Context
) -> ConsumerGroupHeartbeatResponse:
    for name in request.subscribed_topic_names or ():
        ctx.check(DESCRIBE, Resource.topic(name))
    if request.subscribed_topic_regex:
        await _find_out(request.subscribed_topic_regex, ctx)
    response = await ctx.broker.groups.consumer_group_heartbeat(request, client_of(ctx))
    if not ctx.broker.authorizer.is_open and response.assignment is not None:
        # A regular expression finds every topic; who may not know one is not told that it has it.
        names = ctx.broker.image().topic_names
        response.assignment.topic_partitions = [
            each
            for each in response.assignment.topic_partitions
            if ctx.may(DESCRIBE, Resource.topic(names.get(each.topic_id, "")), quietly=True)
        ]
    return response


async def _find_out(pattern: str, ctx: Context) -> None:
    """Match all topics, so that the coordinator, which decides in one go, finds it done."""
    compiled = compile_pattern(pattern)
    unknown = [name for name in ctx.broker.image().topics if not compiled.knows(name)]
    async for name in Turns(_A_TURN).over(unknown):
        compiled.fullmatch(name)
