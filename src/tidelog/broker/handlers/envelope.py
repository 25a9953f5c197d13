"""Envelope (58): another broker hands on what a client asked it and only the controller can do (KIP-590).

The request inside is served as if the client had come here.  Absent: principals that are not of the default kind.
"""

from ipaddress import ip_address

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles, told
from tidelog.broker.permissions import CLUSTER_ACTION, cluster
from tidelog.errors import (
    InvalidRequest,
    NotController,
    PrincipalDeserializationFailure,
    ProtocolError,
)
from tidelog.network.peer import Address, Peer, Principal
from tidelog.protocol.codec import decode
from tidelog.protocol.frame import LENGTH_BYTES, encode_large_response
from tidelog.protocol.headers import parse_request_header
from tidelog.protocol.messages.envelope import (
    DefaultPrincipalData,
    EnvelopeRequest,
    EnvelopeResponse,
)

_PRINCIPAL_AT = 2  # after its version


@handles(EnvelopeRequest, "0", allow=cluster(CLUSTER_ACTION))
async def envelope(request: EnvelopeRequest, ctx: Context) -> EnvelopeResponse:
    header = parse_request_header(request.request_data)
    handler = ctx.broker.handlers.get(header.api_key)
    if handler is None or not handler.controller or header.api_version not in handler.versions:
        raise InvalidRequest(
            f"API key {header.api_key} (version {header.api_version}) is not the controller's"
        )
    if not ctx.broker.controller.is_active:
        raise NotController
    inner, _ = decode(handler.request, request.request_data, header.body_pos, header.api_version)
    client = Context(
        ctx.broker,
        _client(request, ctx.peer),
        header.api_version,
        header.correlation_id,
        header.client_id,
    )
    try:
        if not ctx.broker.authorizer.is_open:
            handler.allow(inner, client)
        response = await handler.run(inner, client)
    except (NotController, ProtocolError):
        raise  # it is to be asked again elsewhere
    except Exception as error:  # noqa: BLE001  (the root of the request)
        response = told(handler, inner, error, client)
    finally:
        client.tell_refused()
    if ctx.broker.trail is not None:
        ctx.broker.trail.changed(handler.api_key, inner, response, client.peer)
    answer = await encode_large_response(response, header.api_version, header.correlation_id)
    return EnvelopeResponse(response_data=bytes(answer[LENGTH_BYTES:]))


def _client(request: EnvelopeRequest, broker: Peer) -> Peer:
    """The client, as the other broker knows it; the broker itself where it asks for no client."""
    if not request.request_principal:
        return broker
    host = request.client_host_address
    address = str(ip_address(host)) if len(host) in (4, 16) else broker.address.host
    client = Peer(Address(address, 0), broker.local, broker.listener)
    try:
        who, _ = decode(DefaultPrincipalData, request.request_principal, _PRINCIPAL_AT, 0)
    except ProtocolError:
        raise PrincipalDeserializationFailure from None
    client.principal = Principal(who.type, who.name)
    client.handed_on_by = broker
    return client
