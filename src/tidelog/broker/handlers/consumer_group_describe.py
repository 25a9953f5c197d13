"""ConsumerGroupDescribe (69): KIP-848 groups with what each member owns and shall own.

Versions: 0; 1 the type of each member.  A classic group is not found here: clients then try DescribeGroups.
Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.operations import authorized_operations
from tidelog.broker.permissions import DESCRIBE, by_item
from tidelog.broker.turns import Turns
from tidelog.errors import KafkaError, TopicAuthorizationFailed
from tidelog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from tidelog.security.acls import Resource


@handles(ConsumerGroupDescribeRequest, "0-1", allow=by_item)
async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, ctx: Context
) -> ConsumerGroupDescribeResponse:
    # A group is described once, however often it is asked for: its members can be many.
    asked = dict.fromkeys(request.group_ids)
    found = [await _describe(group_id, ctx) async for group_id in Turns().over(asked)]
    if request.include_authorized_operations:
        for each in found:
            if not each.error_code:
                each.authorized_operations = authorized_operations(
                    ctx, Resource.group(each.group_id)
                )
    return ConsumerGroupDescribeResponse(groups=found)


async def _describe(group_id: str, ctx: Context) -> DescribedGroup:
    try:
        ctx.check(DESCRIBE, Resource.group(group_id))
        found = await ctx.broker.groups.describe_consumer_group(group_id)
        if not ctx.broker.authorizer.is_open:
            _check_topics(found, ctx)
        return found
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _check_topics(group: DescribedGroup, ctx: Context) -> None:
    """The members tell of topics: who describes the group must be allowed to know them."""
    names = {
        part.topic_name
        for member in group.members
        for each in (member.assignment, member.target_assignment)
        for part in each.topic_partitions
    }
    for member in group.members:
        names.update(member.subscribed_topic_names)
    for name in sorted(names):
        if not ctx.may(DESCRIBE, Resource.topic(name)):
            raise TopicAuthorizationFailed("the group reads topics that you may not describe")
