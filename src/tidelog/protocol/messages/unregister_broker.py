"""UnregisterBroker (64): forget a broker that will not return (KIP-631)."""

from ..schema import Request, Response, int16, int32, string


class UnregisterBrokerRequest(Request, api_key=64, versions="0", flexible="0+"):
    broker_id: int32 = 0


class UnregisterBrokerResponse(Response, to=UnregisterBrokerRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
