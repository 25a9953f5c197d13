"""AlterConfigs (33): replace all settings of a resource; what is not named falls back to its default.

Versions: 1 throttles after the answer; 2 is flexible.
"""

from ..schema import Request, Response, Struct, boolean, field, int8, int16, int32, string


class AlterableConfig(Struct):
    name: string = ""
    value: string | None = ""


class AlterConfigsResource(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    configs: list[AlterableConfig] = field(factory=list)


class AlterConfigsRequest(Request, api_key=33, versions="0-2", flexible="2+", most=30_000):
    resources: list[AlterConfigsResource] = field(factory=list)
    validate_only: boolean = False


class AlterConfigsResourceResponse(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = 0
    resource_name: string = ""


class AlterConfigsResponse(Response, to=AlterConfigsRequest):
    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(factory=list)
