"""SaslHandshake (17)."""

from ..schema import Request, Response, field, int16, string


class SaslHandshakeRequest(Request, api_key=17, versions="0-1", flexible="none"):
    mechanism: string = ""


class SaslHandshakeResponse(Response, to=SaslHandshakeRequest):
    error_code: int16 = 0
    mechanisms: list[string] = field(factory=list)
