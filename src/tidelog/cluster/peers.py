"""How a broker asks another: a request out, its answer back.  `broker/peers.py` does it over the wire."""

from typing import Protocol

from tidelog.protocol.schema import Request, Response


class Peers(Protocol):
    """The other brokers of the cluster."""

    async def ask(
        self,
        broker_id: int,
        request: Request,
        *,
        purpose: str = "control",
        timeout_ms: int = 30_000,
        at_most: int = 32767,
    ) -> Response:
        """Send `request` and return the answer; `KafkaError` (NetworkException, RequestTimedOut …) when there is none.

        Requests of one purpose share a connection and are answered in order, so what waits long (`fetch-0`) must
        not share one with what is urgent (`control`).  No answer does not mean that nothing was done.
        """
        ...

    def hang_up(self, broker_id: int, purpose: str) -> None:
        """Wait no longer for this broker: whoever has asked for this purpose hears NetworkException."""
        ...
