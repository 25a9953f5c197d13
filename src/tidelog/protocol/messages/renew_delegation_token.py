"""RenewDelegationToken (39): let a token live longer (KIP-48).

Versions: 1 throttles after the answer; 2 is flexible.
"""

from ..schema import Request, Response, int16, int32, int64, octets


class RenewDelegationTokenRequest(Request, api_key=39, versions="0-2", flexible="2+"):
    hmac: octets = b""
    renew_period_ms: int64 = 0


class RenewDelegationTokenResponse(Response, to=RenewDelegationTokenRequest):
    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    throttle_time_ms: int32 = 0
