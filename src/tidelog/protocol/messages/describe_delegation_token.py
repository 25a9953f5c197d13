"""DescribeDelegationToken (41): the tokens of some owners (KIP-48).

Versions: 1 throttles after the answer; 2 is flexible; 3 tells who asked for the token (KIP-373).
"""

from ..schema import Request, Response, Struct, field, int16, int32, int64, octets, string


class DescribeDelegationTokenOwner(Struct):
    principal_type: string = ""
    principal_name: string = ""


class DescribeDelegationTokenRequest(Request, api_key=41, versions="0-3", flexible="2+"):
    owners: list[DescribeDelegationTokenOwner] | None = field(factory=list)


class DescribedDelegationTokenRenewer(Struct):
    principal_type: string = ""
    principal_name: string = ""


class DescribedDelegationToken(Struct):
    principal_type: string = ""
    principal_name: string = ""
    token_requester_principal_type: string = field("3+", default="")
    token_requester_principal_name: string = field("3+", default="")
    issue_timestamp: int64 = 0
    expiry_timestamp: int64 = 0
    max_timestamp: int64 = 0
    token_id: string = ""
    hmac: octets = b""
    renewers: list[DescribedDelegationTokenRenewer] = field(factory=list)


class DescribeDelegationTokenResponse(Response, to=DescribeDelegationTokenRequest):
    error_code: int16 = 0
    tokens: list[DescribedDelegationToken] = field(factory=list)
    throttle_time_ms: int32 = 0
