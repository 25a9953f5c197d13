"""AlterClientQuotas (49): set or remove quotas of users, client ids and addresses (KIP-546).

Versions: 1 is flexible.
"""

from ..schema import Request, Response, Struct, boolean, field, float64, int16, int32, string


class EntityData(Struct):
    entity_type: string = ""
    entity_name: string | None = ""


class OpData(Struct):
    key: string = ""
    value: float64 = 0.0
    remove: boolean = False


class EntryData(Struct):
    entity: list[EntityData] = field(factory=list)
    ops: list[OpData] = field(factory=list)


class AlterClientQuotasRequest(Request, api_key=49, versions="0-1", flexible="1+", most=10_000):
    entries: list[EntryData] = field(factory=list)
    validate_only: boolean = False


class AlterClientQuotasResponseEntryData(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    entity: list[EntityData] = field(factory=list)


class AlterClientQuotasResponse(Response, to=AlterClientQuotasRequest):
    throttle_time_ms: int32 = 0
    entries: list[AlterClientQuotasResponseEntryData] = field(factory=list)
