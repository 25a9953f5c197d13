"""AlterUserScramCredentials (51): set or delete the SCRAM credentials of users (KIP-554)."""

from ..schema import Request, Response, Struct, field, int8, int16, int32, octets, string


class ScramCredentialDeletion(Struct):
    name: string = ""
    mechanism: int8 = 0


class ScramCredentialUpsertion(Struct):
    name: string = ""
    mechanism: int8 = 0
    iterations: int32 = 0
    salt: octets = b""
    salted_password: octets = b""


class AlterUserScramCredentialsRequest(
    Request, api_key=51, versions="0", flexible="0+", most=5_000
):
    deletions: list[ScramCredentialDeletion] = field(factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(factory=list)


class AlterUserScramCredentialsResult(Struct):
    user: string = ""
    error_code: int16 = 0
    error_message: string | None = ""


class AlterUserScramCredentialsResponse(Response, to=AlterUserScramCredentialsRequest):
    throttle_time_ms: int32 = 0
    results: list[AlterUserScramCredentialsResult] = field(factory=list)
