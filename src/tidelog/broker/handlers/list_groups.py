"""ListGroups (16): the groups that this broker coordinates.

Versions: 3 is flexible; 4 states, and a filter by them; 5 types, and a filter by them.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@handles(ListGroupsRequest, "0-5")
async def list_groups(request: ListGroupsRequest, ctx: Context) -> ListGroupsResponse:
    found = await ctx.broker.groups.list_groups(request.states_filter, request.types_filter)
    return ListGroupsResponse(groups=found)
