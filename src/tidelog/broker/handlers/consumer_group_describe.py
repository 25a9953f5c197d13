"""ConsumerGroupDescribe (69): KIP-848 groups with what each member owns and shall own.

Versions: 0; 1 the type of each member.  A classic group is not found here: clients then try DescribeGroups.
Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.group_client import GROUP_OPERATIONS
from tidelog.errors import KafkaError
from tidelog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


@handles(ConsumerGroupDescribeRequest, "0-1")
async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, ctx: Context
) -> ConsumerGroupDescribeResponse:
    found = [await _describe(group_id, ctx) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for each in found:
            if not each.error_code:
                each.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=found)


async def _describe(group_id: str, ctx: Context) -> DescribedGroup:
    try:
        return await ctx.broker.groups.describe_consumer_group(group_id)
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
