"""Envelope (58): a broker hands a client's request on to the controller, with who asked (KIP-590).

`request_data` and `response_data` are whole frames without their lengths; `request_principal` is a
`DefaultPrincipalData` with two bytes of version in front.
"""

from ..schema import Message, Request, Response, boolean, int16, octets, string


class EnvelopeRequest(Request, api_key=58, versions="0", flexible="0+"):
    request_data: octets = b""
    request_principal: octets | None = b""
    client_host_address: octets = b""


class EnvelopeResponse(Response, to=EnvelopeRequest):
    response_data: octets | None = None
    error_code: int16 = 0


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    type: string = ""
    name: string = ""
    token_authenticated: boolean = False
