"""DeleteGroups (42): forgets empty groups and their offsets.

Versions: 1 throttles; 2 is flexible.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DELETE, by_item
from tidelog.broker.turns import Turns
from tidelog.errors import KafkaError
from tidelog.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from tidelog.security.acls import Resource


@handles(DeleteGroupsRequest, "0-2", allow=by_item)
async def delete_groups(request: DeleteGroupsRequest, ctx: Context) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            await _delete(group_id, ctx) async for group_id in Turns().over(request.groups_names)
        ]
    )


async def _delete(group_id: str, ctx: Context) -> DeletableGroupResult:
    try:
        ctx.check(DELETE, Resource.group(group_id))
        await ctx.broker.groups.delete_group(group_id)
    except KafkaError as error:
        return DeletableGroupResult(group_id=group_id, error_code=error.code)
    return DeletableGroupResult(group_id=group_id)
