"""SaslAuthenticate (36): one step of a login.

Versions: 1 tells for how long the login is good (KIP-368); 2 is flexible.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.gate import PeerLogin, log_in
from tidelog.broker.permissions import anybody
from tidelog.errors import IllegalSaslState, KafkaError
from tidelog.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


@handles(SaslAuthenticateRequest, "0-2", allow=anybody, before_login=True)
async def sasl_authenticate(
    request: SaslAuthenticateRequest, ctx: Context
) -> SaslAuthenticateResponse:
    found = ctx.peer.login
    if not isinstance(found, PeerLogin):
        raise IllegalSaslState("this listener asks for no login")
    delay_s = ctx.broker.settings.security.failed_login_delay_ms / 1000
    try:
        answer = await log_in(ctx.peer, found, bytes(request.auth_bytes), delay_s)
    except KafkaError as error:
        ctx.peer.hang_up()
        return SaslAuthenticateResponse(error_code=error.code, error_message=error.message)
    return SaslAuthenticateResponse(
        auth_bytes=answer, error_message=None, session_lifetime_ms=found.login.session_ms
    )
