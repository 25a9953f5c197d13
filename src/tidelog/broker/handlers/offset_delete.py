"""OffsetDelete (47): an administrator forgets offsets of topics that a group does not read any more.

Versions: 0, never flexible.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


@handles(OffsetDeleteRequest, "0")
async def offset_delete(request: OffsetDeleteRequest, ctx: Context) -> OffsetDeleteResponse:
    return await ctx.broker.groups.offset_delete(request)
