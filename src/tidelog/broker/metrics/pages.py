"""The pages of a broker: `/metrics`, `/healthz`, `/readyz`.

They are there from the beginning of a start, so that whoever looks after the broker sees it alive while it checks its logs
after a crash.  `/healthz` is answered by the loop that everything passes through: that it is answered is the answer.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tidelog.network.http import HttpServer, Page

if TYPE_CHECKING:
    from tidelog.broker.metrics.families import Found
    from tidelog.broker.metrics.sight import Sight

_NOT_INSTALLED = (
    b"metrics need the package prometheus-client: pip install 'tidelog[metrics]'\n"
    b"/healthz and /readyz do without\n"
)


class Pages:
    """See the module's docstring."""

    def __init__(
        self, why_not_ready: Callable[[], list[str]], sight: "Callable[[], Sight | None]"
    ) -> None:
        """`why_not_ready` lists what keeps the broker from serving; `sight` is None until it does."""
        self._why_not_ready = why_not_ready
        self._sight = sight
        self._one_at_a_time = asyncio.Lock()
        self._server = HttpServer(
            {"/metrics": self.metrics, "/healthz": self.health, "/readyz": self.ready}
        )

    async def start(self, sock: socket.socket) -> None:
        await self._server.start(sock)

    async def stop(self) -> None:
        await self._server.stop()

    async def health(self) -> Page:
        return Page(200, b"ok\n")

    async def ready(self) -> Page:
        reasons = self._why_not_ready()
        if not reasons:
            return Page(200, b"ready\n")
        return Page(503, "".join(f"{each}\n" for each in reasons).encode())

    async def metrics(self) -> Page:
        async with self._one_at_a_time:
            try:
                # In a thread: it takes a tenth of a second, once, in which others are to be served.
                render, collect, content_type = await asyncio.to_thread(_library)
            except ImportError:
                return Page(501, _NOT_INSTALLED)
            sight = self._sight()
            if sight is None:
                return Page(503, b"the broker is starting\n")
            await sight.prepare()
            text = bytearray()
            for piece in render(collect(sight)):
                text += piece
                await asyncio.sleep(0)
            return Page(200, bytes(text), content_type)


def _library() -> tuple[Callable[..., Iterator[bytes]], Callable[..., "Iterator[Found]"], str]:
    from tidelog.broker.metrics.sources import collect, sources
    from tidelog.broker.metrics.text import CONTENT_TYPE, render

    sources()
    return render, collect, CONTENT_TYPE
