"""DescribeAcls (29): list access rules by a filter.

Versions: 1 has pattern types (KIP-290); 2 is flexible; 3 knows the resource type user.
"""

from ..schema import Request, Response, Struct, field, int8, int16, int32, string


class DescribeAclsRequest(Request, api_key=29, versions="0-3", flexible="2+"):
    resource_type_filter: int8 = 0
    resource_name_filter: string | None = ""
    pattern_type_filter: int8 = field("1+", default=3)
    principal_filter: string | None = ""
    host_filter: string | None = ""
    operation: int8 = 0
    permission_type: int8 = 0


class AclDescription(Struct):
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DescribeAclsResource(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = field("1+", default=3)
    acls: list[AclDescription] = field(factory=list)


class DescribeAclsResponse(Response, to=DescribeAclsRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    resources: list[DescribeAclsResource] = field(factory=list)
