"""ListConfigResources (74)."""

from ..schema import Request, Response, Struct, field, int8, int16, int32, string


class ListConfigResourcesRequest(Request, api_key=74, versions="0-1", flexible="0+"):
    resource_types: list[int8] = field("1+", factory=list)


class ConfigResource(Struct):
    resource_name: string = ""
    resource_type: int8 = field("1+", default=16)


class ListConfigResourcesResponse(Response, to=ListConfigResourcesRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    config_resources: list[ConfigResource] = field(factory=list)
