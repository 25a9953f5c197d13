"""DescribeGroups (15): classic groups with their members.

Versions: 3 authorized operations; 4 instance ids; 5 is flexible; 6 an unknown group is an error (KIP-1043), where
older versions describe it as Dead.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.operations import authorized_operations
from tidelog.broker.permissions import DESCRIBE, by_item
from tidelog.broker.turns import Turns
from tidelog.errors import GroupIdNotFound, KafkaError
from tidelog.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tidelog.security.acls import Resource

_NOT_FOUND_FROM = 6


@handles(DescribeGroupsRequest, "0-6", allow=by_item)
async def describe_groups(request: DescribeGroupsRequest, ctx: Context) -> DescribeGroupsResponse:
    # A group is described once, however often it is asked for: its members can be many.
    asked = dict.fromkeys(request.groups)
    found = [await _describe(group_id, ctx) async for group_id in Turns().over(asked)]
    if request.include_authorized_operations:
        for each in found:
            if not each.error_code:
                each.authorized_operations = authorized_operations(
                    ctx, Resource.group(each.group_id)
                )
    return DescribeGroupsResponse(groups=found)


async def _describe(group_id: str, ctx: Context) -> DescribedGroup:
    try:
        ctx.check(DESCRIBE, Resource.group(group_id))
        return await ctx.broker.groups.describe_group(group_id)
    except GroupIdNotFound as error:
        if ctx.api_version < _NOT_FOUND_FROM:
            return DescribedGroup(group_id=group_id, group_state="Dead")
        return DescribedGroup(
            error_code=error.code,
            error_message=error.message,
            group_id=group_id,
            group_state="Dead",
        )
    except KafkaError as error:
        return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
