"""How much of a request may come before it is whole, and for how long one waits for the rest of it.

    config.http_protocol_class = bounded(config.http_protocol_class)

uvicorn waits for ever for a connection that says nothing, and keeps headers without end; both hold for whoever comes, before
any login.  What has been asked in full may take as long as it takes.
"""

import asyncio
from typing import Any

HEAD_S = 30.0
"""For the first line and the headers; also for a connection on which nothing has been asked yet."""
BODY_S = 120.0
HEAD_BYTES = 64 * 1024
"""What h11 takes; httptools has no bound of its own."""


def bounded(kind: Any) -> Any:
    """One of uvicorn's protocols for HTTP, with these bounds."""

    class Bounded(kind):  # type: ignore[misc]
        _waits_s: float | None = None
        _timer: asyncio.TimerHandle | None = None
        _heads = 0
        _in_head = False
        _head_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._watch()

        def connection_lost(self, error: Exception | None) -> None:
            self._wait(None)
            super().connection_lost(error)

        def data_received(self, data: bytes) -> None:
            before = self._heads if self._in_head else None
            super().data_received(data)
            if self._in_head and self._heads == before:
                self._head_bytes += len(data)
                if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
                    self.send_400_response(f"The headers are larger than {HEAD_BYTES} bytes.")
            self._watch()

        def on_message_begin(self) -> None:
            """Of httptools, as the next."""
            self._in_head, self._head_bytes = True, 0
            self._heads += 1
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._in_head = False
            super().on_headers_complete()

        def _watch(self) -> None:
            cycle = self.cycle
            if cycle is None or cycle.response_complete:
                self._wait(HEAD_S)
            else:
                self._wait(BODY_S if cycle.more_body else None)

        def _wait(self, seconds: float | None) -> None:
            if seconds == self._waits_s:
                return
            self._waits_s = seconds
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if seconds is not None and not self.transport.is_closing():
                self._timer = self.loop.call_later(seconds, self.transport.close)

    return Bounded
