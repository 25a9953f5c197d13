"""SaslAuthenticate (36): one step of a login.

Versions: 1 answers with the lifetime of the session (KIP-368); 2 is flexible.
"""

from ..schema import Request, Response, field, int16, int64, octets, string


class SaslAuthenticateRequest(Request, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: octets = b""


class SaslAuthenticateResponse(Response, to=SaslAuthenticateRequest):
    error_code: int16 = 0
    error_message: string | None = ""
    auth_bytes: octets = b""
    session_lifetime_ms: int64 = field("1+", default=0)
