"""IncrementalAlterConfigs (44): set, delete, append to or subtract from single settings (KIP-339).

Versions: 1 is flexible.
"""

from ..schema import Request, Response, Struct, boolean, field, int8, int16, int32, string


class AlterableConfig(Struct):
    name: string = ""
    config_operation: int8 = 0
    value: string | None = ""


class AlterConfigsResource(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    configs: list[AlterableConfig] = field(factory=list)


class IncrementalAlterConfigsRequest(
    Request, api_key=44, versions="0-1", flexible="1+", most=30_000
):
    resources: list[AlterConfigsResource] = field(factory=list)
    validate_only: boolean = False


class AlterConfigsResourceResponse(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = 0
    resource_name: string = ""


class IncrementalAlterConfigsResponse(Response, to=IncrementalAlterConfigsRequest):
    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(factory=list)
