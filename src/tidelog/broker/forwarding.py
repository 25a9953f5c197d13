"""Hands on what only the controller can do: a client may ask any broker (KIP-590).

When the answer is sent, this broker's image shows what was done, so that the client finds it here.
"""

from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from struct import Struct as Packer

from tidelog.broker.context import Context
from tidelog.cluster.control import Anybody
from tidelog.cluster.controller import Controller
from tidelog.network.answer import Ready

_LENGTH = Packer(">i")
_PATIENCE_MS = 20_000


async def at_controller(frame: bytes, ctx: Context, here: Callable[[], Awaitable[Ready]]) -> Ready:
    """The controller's answer to `frame`: by `here`, if this broker is the controller, else over the wire.

    Raises `NotController` and network errors when no controller could be reached in time.
    """

    async def do(controller: Anybody) -> Ready:
        if isinstance(controller, Controller):
            return await here()
        host = _packed(ctx.peer.address.host)
        data = await controller.forward(frame, tuple(ctx.principal), host)
        return _LENGTH.pack(len(data)) + data

    answer = await ctx.broker.controller.anywhere(do, timeout_ms=_PATIENCE_MS)
    await ctx.broker.controller.catch_up()
    return answer


def _packed(host: str) -> bytes:
    try:
        return ip_address(host).packed
    except ValueError:
        return b""
