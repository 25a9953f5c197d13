"""CreateAcls (30): add access rules.

Versions: 1 has pattern types (KIP-290); 2 is flexible; 3 knows the resource type user.
"""

from ..schema import Request, Response, Struct, field, int8, int16, int32, string


class AclCreation(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    resource_pattern_type: int8 = field("1+", default=3)
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class CreateAclsRequest(Request, api_key=30, versions="0-3", flexible="2+", most=10_000):
    creations: list[AclCreation] = field(factory=list)


class AclCreationResult(Struct):
    error_code: int16 = 0
    error_message: string | None = ""


class CreateAclsResponse(Response, to=CreateAclsRequest):
    throttle_time_ms: int32 = 0
    results: list[AclCreationResult] = field(factory=list)
