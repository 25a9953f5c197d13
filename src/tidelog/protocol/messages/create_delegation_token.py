"""CreateDelegationToken (38): make a token that stands for a user's login (KIP-48).

Versions: 1 throttles after the answer; 2 is flexible; 3 can name another owner (KIP-373).
"""

from ..schema import Request, Response, Struct, field, int16, int32, int64, octets, string


class CreatableRenewers(Struct):
    principal_type: string = ""
    principal_name: string = ""


class CreateDelegationTokenRequest(Request, api_key=38, versions="0-3", flexible="2+"):
    owner_principal_type: string | None = field("3+", default="")
    owner_principal_name: string | None = field("3+", default="")
    renewers: list[CreatableRenewers] = field(factory=list)
    max_lifetime_ms: int64 = 0


class CreateDelegationTokenResponse(Response, to=CreateDelegationTokenRequest):
    error_code: int16 = 0
    principal_type: string = ""
    principal_name: string = ""
    token_requester_principal_type: string = field("3+", default="")
    token_requester_principal_name: string = field("3+", default="")
    issue_timestamp_ms: int64 = 0
    expiry_timestamp_ms: int64 = 0
    max_timestamp_ms: int64 = 0
    token_id: string = ""
    hmac: octets = b""
    throttle_time_ms: int32 = 0
