"""Handing a request on to the instance that writes: the same HTTP request, marked so that it goes no further."""

import asyncio
import contextlib
import http.client
import json
import socket
import ssl
from dataclasses import field
from urllib.parse import urlsplit

from tidelog.dataclass import dataclass

FORWARDED_HEADER = "x-forward"
"""Confluent's instances mark their requests so, too."""


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A request as it came."""

    method: str
    target: str
    """Path and query, not decoded."""
    body: bytes
    is_forwarded: bool
    authorization: str = field(default="", repr=False)
    """The user's own login, which the writer checks again."""

    @property
    def repeatable(self) -> bool:
        """Whether doing it twice is the same as doing it once."""
        return self.method != "DELETE"


@dataclass(frozen=True, slots=True)
class Answer:
    """What another instance answered."""

    status: int
    body: bytes

    @property
    def error_code(self) -> int:
        if self.status < 400:
            return 0
        try:
            return int(json.loads(self.body)["error_code"])
        except (ValueError, KeyError, TypeError):
            return self.status


class NobodyThere(Exception):
    """No answer came; the request may or may not have arrived."""

    def __init__(self, reason: str, *, may_have_arrived: bool) -> None:
        super().__init__(reason)
        self.may_have_arrived = may_have_arrived


async def send(
    url: str, request: Forwarded, timeout_s: float, tls: ssl.SSLContext | None = None
) -> Answer:
    """The answer of the instance at `url`.  May be cancelled; the request may have arrived all the same."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls)
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=timeout_s)
    )
    # Writes are few: a connection and a thread for each is simpler than a second HTTP client.
    asking = asyncio.get_running_loop().run_in_executor(None, _send, connection, request)
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        asking.add_done_callback(lambda future: future.exception())  # nobody wants to know any more
        _hang_up(connection)
        raise


def _send(connection: http.client.HTTPConnection, request: Forwarded) -> Answer:
    try:
        try:
            connection.connect()
        except OSError as error:
            raise NobodyThere(str(error), may_have_arrived=False) from error
        try:
            connection.request(
                request.method,
                request.target,
                body=request.body,
                headers=_headers(request),
            )
            response = connection.getresponse()
            return Answer(response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            raise NobodyThere(repr(error), may_have_arrived=True) from error
    finally:
        connection.close()


def _headers(request: Forwarded) -> dict[str, str]:
    headers = {"Content-Type": "application/json", FORWARDED_HEADER: "true"}
    if request.authorization:
        headers["Authorization"] = request.authorization
    return headers


def _hang_up(connection: http.client.HTTPConnection) -> None:
    """Wake the thread that waits for an answer."""
    sock = connection.sock
    if sock is not None:
        with contextlib.suppress(OSError):  # it is closed already
            sock.shutdown(socket.SHUT_RDWR)
