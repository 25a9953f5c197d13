"""DescribeUserScramCredentials (50): which users have SCRAM credentials, of what strength (KIP-554)."""

from ..schema import Request, Response, Struct, field, int8, int16, int32, string


class UserName(Struct):
    name: string = ""


class DescribeUserScramCredentialsRequest(Request, api_key=50, versions="0", flexible="0+"):
    users: list[UserName] | None = field(factory=list)


class CredentialInfo(Struct):
    mechanism: int8 = 0
    iterations: int32 = 0


class DescribeUserScramCredentialsResult(Struct):
    user: string = ""
    error_code: int16 = 0
    error_message: string | None = ""
    credential_infos: list[CredentialInfo] = field(factory=list)


class DescribeUserScramCredentialsResponse(Response, to=DescribeUserScramCredentialsRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(factory=list)
