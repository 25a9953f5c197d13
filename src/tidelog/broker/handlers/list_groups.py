"""ListGroups (16): the groups that this broker coordinates.

Versions: 3 is flexible; 4 states, and a filter by them; 5 types, and a filter by them.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE, by_item
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.security.acls import CLUSTER, Resource


@handles(ListGroupsRequest, "0-5", allow=by_item)
async def list_groups(request: ListGroupsRequest, ctx: Context) -> ListGroupsResponse:
    found = await ctx.broker.groups.list_groups(request.states_filter, request.types_filter)
    if not ctx.may(DESCRIBE, CLUSTER, quietly=True):
        found = [
            each for each in found if ctx.may(DESCRIBE, Resource.group(each.group_id), quietly=True)
        ]
    return ListGroupsResponse(groups=found)
