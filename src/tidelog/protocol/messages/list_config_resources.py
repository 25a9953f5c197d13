"""ListConfigResources (74): the resources that have settings of their own.

Versions: 0 was called ListClientMetricsResources and lists only those (KIP-714, KIP-1000); 1 lists any type
(KIP-1142).
"""

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
