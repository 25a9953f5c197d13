"""ExpireDelegationToken (40): end a token, now or later (KIP-48).

Versions: 1 throttles after the answer; 2 is flexible.
"""

from ..schema import Request, Response, int16, int32, int64, octets


class ExpireDelegationTokenRequest(Request, api_key=40, versions="0-2", flexible="2+"):
    hmac: octets = b""
    expiry_time_period_ms: int64 = 0


class ExpireDelegationTokenResponse(Response, to=ExpireDelegationTokenRequest):
    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    throttle_time_ms: int32 = 0
