"""ListGroups (16): the groups that a broker coordinates.

Versions: 1 throttles; 2 throttles after the answer; 3 is flexible; 4 filters by state (KIP-518); 5 by type of
group (KIP-848).
"""

from ..schema import Request, Response, Struct, field, int16, int32, string


class ListGroupsRequest(Request, api_key=16, versions="0-5", flexible="3+"):
    states_filter: list[string] = field("4+", factory=list)
    types_filter: list[string] = field("5+", factory=list)


class ListedGroup(Struct):
    group_id: string = ""
    protocol_type: string = ""
    group_state: string = field("4+", default="")
    group_type: string = field("5+", default="")


class ListGroupsResponse(Response, to=ListGroupsRequest):
    throttle_time_ms: int32 = field("1+", default=0)
    error_code: int16 = 0
    groups: list[ListedGroup] = field(factory=list)
