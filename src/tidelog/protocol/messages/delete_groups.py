"""DeleteGroups (42): delete empty groups and their offsets.

Versions: 1 throttles after the answer; 2 is flexible.
"""

from ..schema import Request, Response, Struct, field, int16, int32, string


class DeleteGroupsRequest(Request, api_key=42, versions="0-2", flexible="2+"):
    groups_names: list[string] = field(factory=list)


class DeletableGroupResult(Struct):
    group_id: string = ""
    error_code: int16 = 0


class DeleteGroupsResponse(Response, to=DeleteGroupsRequest):
    throttle_time_ms: int32 = 0
    results: list[DeletableGroupResult] = field(factory=list)
