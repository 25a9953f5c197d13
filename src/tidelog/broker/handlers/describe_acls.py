"""DescribeAcls (29): list access rules by a filter.

Versions: 1 has pattern types (KIP-290); 2 is flexible; 3 knows the resource type user.  Absent: nothing.
"""

from tidelog.broker.acl_messages import filter_of
from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE, cluster
from tidelog.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


@handles(DescribeAclsRequest, "0-3", allow=cluster(DESCRIBE))
async def describe_acls(request: DescribeAclsRequest, ctx: Context) -> DescribeAclsResponse:
    wanted = filter_of(request)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in ctx.broker.image().access.acls:
        if not wanted.matches(acl):
            continue
        key = (int(acl.resource_type), acl.name, int(acl.pattern))
        resource = resources.setdefault(
            key,
            DescribeAclsResource(resource_type=key[0], resource_name=key[1], pattern_type=key[2]),
        )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=int(acl.operation),
                permission_type=int(acl.permission),
            )
        )
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))
