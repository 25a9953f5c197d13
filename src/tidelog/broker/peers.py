"""Connections to the other brokers of the cluster: one for each broker and purpose, made when it is first needed.

    peers = BrokerPeers(broker_id=1, image=lambda: tail.image, random=random)
    answer = await peers.ask(2, FetchRequest(…), purpose="fetch-0")

An address comes from the image.  A broker that has registered anew gets a new connection, because the old one
leads to a process that is gone.  After a failure the next attempt waits, longer each time, so that a broker that is
down is not hammered.  With `security` this broker logs in to the others, over their listener of that name.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tidelog.cluster.image import Broker, Image
from tidelog.errors import (
    BrokerNotAvailable,
    KafkaError,
    NetworkException,
    ProtocolError,
    RequestTimedOut,
)
from tidelog.protocol.schema import Request, Response

if TYPE_CHECKING:  # a broker that is alone needs no client
    from tidelog.client.connection import Connection
    from tidelog.client.security import ClientSecurity

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_CONNECT_S = 10.0
_SAME_MACHINE = "127.0.0.1"
"""Where a broker is that registered no host: it serves this machine alone."""


class BrokerPeers:
    """See the module's docstring; implements `cluster.peers.Peers`."""

    def __init__(
        self,
        broker_id: int,
        image: Callable[[], Image],
        random: Random,
        *,
        listener: str = "",
        security: "ClientSecurity | None" = None,
    ) -> None:
        self._client_id = f"broker-{broker_id}"
        self._listener = listener
        self._security = security
        self._image = image
        self._random = random
        self._links: dict[tuple[int, str], _Link] = {}

    async def ask(
        self,
        broker_id: int,
        request: Request,
        *,
        purpose: str = "control",
        timeout_ms: int = 30_000,
        at_most: int = 32767,
    ) -> Response:
        """See `cluster.peers.Peers`."""
        link = self._link(broker_id, purpose)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(deadline):
                connection = await link.connected()
        except TimeoutError:
            raise RequestTimedOut(
                f"broker {broker_id} could not be reached in {timeout_ms} ms"
            ) from None
        left = max(deadline - loop.time(), 0.001)
        try:
            return await connection.ask(request, timeout_s=left, at_most=at_most)
        except KafkaError:
            link.drop_if_closed()
            raise
        except ProtocolError as error:
            raise NetworkException(
                f"the answer of broker {broker_id} is damaged: {error}"
            ) from error

    def hang_up(self, broker_id: int, purpose: str) -> None:
        """See `cluster.peers.Peers`."""
        link = self._links.pop((broker_id, purpose), None)
        if link is not None:
            link.close()

    def close(self) -> None:
        """Close all connections; who waits is told so."""
        links, self._links = self._links, {}
        for link in links.values():
            link.close()

    def _link(self, broker_id: int, purpose: str) -> "_Link":
        broker = self._image().brokers.get(broker_id)
        if broker is None:
            raise BrokerNotAvailable(f"broker {broker_id} is not known")
        key = (broker_id, purpose)
        link = self._links.get(key)
        if link is None or link.broker_epoch != broker.epoch:
            if link is not None:
                link.close()
            link = self._links[key] = _Link(
                broker,
                _endpoint(broker, self._listener),
                self._client_id,
                self._random,
                self._security,
            )
        return link


class _Link:
    """The way to one incarnation of a broker."""

    def __init__(
        self,
        broker: Broker,
        address: tuple[str, int],
        client_id: str,
        random: Random,
        security: "ClientSecurity | None",
    ) -> None:
        self.broker_epoch = broker.epoch
        self._address = address
        self._security = security
        self._client_id = client_id
        self._random = random
        self._connection: Connection | None = None
        self._opening = asyncio.Lock()
        self._pause_s = 0.0
        self._closed = False

    async def connected(self) -> "Connection":
        """The open connection; NetworkException when none can be had."""
        connection = self._usable()
        if connection is not None:
            return connection
        async with self._opening:
            connection = self._usable()
            if connection is not None:
                return connection  # somebody else was quicker
            if self._pause_s:
                await asyncio.sleep(self._pause_s * (0.8 + 0.4 * self._random.random()))
            self._check_open()
            self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            from tidelog.client.connection import Connection

            host, port = self._address
            opened = await Connection.open(
                host,
                port,
                client_id=self._client_id,
                timeout_s=_CONNECT_S,
                security=self._security,
            )
            self._connection = opened
            self._check_open()
            self._pause_s = 0.0
            return self._connection

    def _usable(self) -> "Connection | None":
        found = self._connection
        if found is None or found.closed:
            return None
        if found.is_stale:
            self._connection = None
            found.close_when_idle()
            return None
        return found

    def _check_open(self) -> None:
        if self._closed:
            self.close()
            raise NetworkException("the broker has moved, or this one stops")

    def drop_if_closed(self) -> None:
        if self._connection is not None and self._connection.closed:
            self._connection = None

    def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            self._connection.close()


def _endpoint(broker: Broker, listener: str) -> tuple[str, int]:
    """Where the broker's listener of this name is, else its first."""
    found = {name: (host, port) for name, host, port in broker.endpoints}
    host, port = found.get(listener) or next(iter(found.values()), ("", 0))
    return host or _SAME_MACHINE, port
