"""DescribeClientQuotas (48): quotas of users, client ids and addresses (KIP-546).

Versions: 1 is flexible.
"""

from ..schema import Request, Response, Struct, boolean, field, float64, int8, int16, int32, string


class ComponentData(Struct):
    entity_type: string = ""
    match_type: int8 = 0
    match: string | None = ""


class DescribeClientQuotasRequest(Request, api_key=48, versions="0-1", flexible="1+"):
    components: list[ComponentData] = field(factory=list)
    strict: boolean = False


class EntityData(Struct):
    entity_type: string = ""
    entity_name: string | None = ""


class ValueData(Struct):
    key: string = ""
    value: float64 = 0.0


class EntryData(Struct):
    entity: list[EntityData] = field(factory=list)
    values: list[ValueData] = field(factory=list)


class DescribeClientQuotasResponse(Response, to=DescribeClientQuotasRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    entries: list[EntryData] | None = field(factory=list)
