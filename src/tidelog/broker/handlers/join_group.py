"""JoinGroup (11): a member of the classic protocol joins its group, and waits for the next generation.

Versions: 0 has no rebalance timeout; 4 a new member comes twice (KIP-394); 5 static members (KIP-345); 6 is flexible;
7 protocol type in the answer; 8 a reason; 9 the leader may skip the assignment (KIP-814).  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.group_client import client_of
from tidelog.broker.permissions import READ, group
from tidelog.errors import KafkaError
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


@handles(JoinGroupRequest, "0-9", allow=group(READ, "group_id"))
async def join_group(request: JoinGroupRequest, ctx: Context) -> JoinGroupResponse:
    try:
        return await ctx.broker.groups.join_group(request, client_of(ctx))
    except KafkaError as error:
        return JoinGroupResponse(error_code=error.code, member_id=request.member_id)
