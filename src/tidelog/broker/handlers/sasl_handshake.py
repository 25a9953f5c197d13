"""SaslHandshake (17): a client chooses how to log in.

Versions: after 0 raw tokens follow, after 1 SaslAuthenticate requests (KIP-152).  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.gate import PeerLogin
from tidelog.broker.permissions import anybody
from tidelog.errors import IllegalSaslState, KafkaError
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@handles(SaslHandshakeRequest, "0-1", allow=anybody, before_login=True)
def sasl_handshake(request: SaslHandshakeRequest, ctx: Context) -> SaslHandshakeResponse:
    found = ctx.peer.login
    if not isinstance(found, PeerLogin):
        return SaslHandshakeResponse(error_code=IllegalSaslState.code)
    try:
        found.login.choose(request.mechanism)
    except KafkaError as error:
        ctx.peer.hang_up()
        return SaslHandshakeResponse(error_code=error.code, mechanisms=found.login.offered)
    found.raw = ctx.api_version == 0
    return SaslHandshakeResponse(mechanisms=found.login.offered)
