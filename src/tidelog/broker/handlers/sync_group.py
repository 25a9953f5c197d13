"""SyncGroup (14): the leader of a classic group brings the assignment, the others fetch theirs.

Versions: 3 static members (KIP-345); 4 is flexible; 5 protocol type and name are checked.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import READ, group
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@handles(SyncGroupRequest, "0-5", allow=group(READ, "group_id"))
async def sync_group(request: SyncGroupRequest, ctx: Context) -> SyncGroupResponse:
    return await ctx.broker.groups.sync_group(request)
