"""DescribeConfigs (32): settings of topics, brokers and groups, and where they come from.

Versions: 0 only says whether a setting is a default; 1 names its source and synonyms; 2 throttles after the
answer; 3 adds type and documentation; 4 is flexible.
"""

from ..schema import Request, Response, Struct, boolean, field, int8, int16, int32, string


class DescribeConfigsResource(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    configuration_keys: list[string] | None = field(factory=list)


class DescribeConfigsRequest(Request, api_key=32, versions="0-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = field(factory=list)
    include_synonyms: boolean = field("1+", default=False)
    include_documentation: boolean = field("3+", default=False)


class DescribeConfigsSynonym(Struct):
    name: string = field("1+", default="")
    value: string | None = field("1+", default="")
    source: int8 = field("1+", default=0)


class DescribeConfigsResourceResult(Struct):
    name: string = ""
    value: string | None = ""
    read_only: boolean = False
    config_source: int8 = field("1+", default=-1)
    is_default: boolean = field("0", default=False)
    is_sensitive: boolean = False
    synonyms: list[DescribeConfigsSynonym] = field("1+", factory=list)
    config_type: int8 = field("3+", default=0)
    documentation: string | None = field("3+", default="")


class DescribeConfigsResult(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = 0
    resource_name: string = ""
    configs: list[DescribeConfigsResourceResult] = field(factory=list)


class DescribeConfigsResponse(Response, to=DescribeConfigsRequest):
    throttle_time_ms: int32 = 0
    results: list[DescribeConfigsResult] = field(factory=list)
