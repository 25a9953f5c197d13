"""SaslHandshake (17): choose how to log in.

Versions: after 0 raw tokens follow, after 1 SaslAuthenticate requests.  Never flexible.
"""

from ..schema import Request, Response, field, int16, string


class SaslHandshakeRequest(Request, api_key=17, versions="0-1", flexible="none"):
    mechanism: string = ""


class SaslHandshakeResponse(Response, to=SaslHandshakeRequest):
    error_code: int16 = 0
    mechanisms: list[string] = field(factory=list)
