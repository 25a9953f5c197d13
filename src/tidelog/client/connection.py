"""One connection to one broker: requests out, answers in, matched by their correlation ids.

    connection = await Connection.open("localhost", 9092, client_id="me", timeout_s=10)
    answer = await connection.ask(MetadataRequest(topics=None), timeout_s=30)

The first exchange is ApiVersions, so that every later request goes out in the newest version that both sides know.
Answers are read straight into a buffer of their size; batches in them are slices of it.  A request that times out
closes the connection: what comes after it could not be trusted to come in time either (as in Kafka's client).
With `security` the connection is encrypted, or logged in, or both, before it is given out.  A login may be good for
some time only; then `is_stale` says when it should be replaced by a new connection (KIP-368).
Absent: throttling on the client's side.
"""

import asyncio
import os
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from struct import Struct as Packer
from typing import TYPE_CHECKING, cast

from tidelog import __version__
from tidelog.client.metrics import Metrics
from tidelog.errors import (
    KafkaError,
    NetworkException,
    ProtocolError,
    RequestTimedOut,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
    error_of,
)
from tidelog.protocol.frame import decode_response, encode_request
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.schema import Request, Response

if TYPE_CHECKING:
    from tidelog.client.security import ClientSecurity

_STAGING_BYTES = 64 * 1024
_LENGTH = Packer(">i")
_LARGEST_ANSWER = 1 << 30
_FRESH_SHARE = 0.85
"""Of a login's time; after it the connection is replaced, before the broker closes it."""
SILENCE_S = 2.0
"""A request that waits from one look to the next is a reason to ask others how this broker is."""
_ERRNO = re.compile(r"\[Errno (\d+)\]")

AT_MOST = {0: 12, 8: 9, 9: 9}
"""Versions that we stay below: the next ones of Produce, OffsetCommit and OffsetFetch know topics by their ids only."""


class Connection(asyncio.BufferedProtocol):
    """A socket on the running loop; not thread-safe."""

    def __init__(
        self,
        address: str,
        client_id: str,
        metrics: Metrics,
        on_silence: "Callable[[Connection], None] | None" = None,
    ) -> None:
        self.address = address
        self._on_silence = on_silence
        self.is_silent = False
        """Whether a request has been waiting for long, and nothing was heard since."""
        self._silence_timer: asyncio.TimerHandle | None = None
        self._oldest_seen = -1
        self._metrics = metrics
        self._client_id = client_id
        self._versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        """What the cluster has agreed on, such as `transaction.version` (KIP-584)."""
        self._transport: asyncio.Transport | None = None
        self._error: KafkaError | None = None
        self._stale_at: float | None = None
        self._retired = False
        self._next_id = 0
        self._waiting: dict[int, tuple[type[Response], int, asyncio.Future[Response], float]] = {}
        """By correlation id: what the answer is, in which version, who waits for it, and since when."""
        self._writable = asyncio.Event()
        self._writable.set()
        # Where bytes arrive: the staging buffer, or the buffer of an answer that is larger than what was there.
        self._staging = bytearray(_STAGING_BYTES)
        self._staged = 0
        self._large: bytearray | None = None
        self._filled = 0

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        metrics: Metrics | None = None,
        security: "ClientSecurity | None" = None,
        on_silence: "Callable[[Connection], None] | None" = None,
    ) -> "Connection":
        """Connect and learn what the broker speaks; NetworkException says why it cannot be.

        `on_silence` is called now and then while a request waits for more than about SILENCE_S.
        """
        address = f"{host}:{port}"
        loop = asyncio.get_running_loop()
        measured = metrics or Metrics()
        context = None if security is None else security.context
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(
                    lambda: cls(address, client_id, measured, on_silence), host, port, ssl=context
                )
        except TimeoutError:
            raise NetworkException(
                f"{address} did not accept a connection in {timeout_s:g} s"
            ) from None
        except OSError as error:
            raise NetworkException(f"cannot connect to {address}: {_reason(error)}") from None
        try:
            await connection._learn_versions(timeout_s)
            if security is not None:
                await connection._log_in(security, timeout_s)
        except (SaslAuthenticationFailed, UnsupportedSaslMechanism):
            connection.close()
            raise
        except ProtocolError as error:
            connection.close()
            raise NetworkException(f"{address} does not speak Kafka's protocol: {error}") from None
        except KafkaError as error:
            connection.close()
            raise NetworkException(f"{address} did not answer as a broker does: {error}") from None
        except asyncio.CancelledError:
            connection.close()  # nobody else knows of it
            raise
        return connection

    @property
    def closed(self) -> bool:
        return self._error is not None

    @property
    def is_stale(self) -> bool:
        """Whether its login is good for not much longer: a new connection should be used."""
        return self._stale_at is not None and asyncio.get_running_loop().time() >= self._stale_at

    def close_when_idle(self) -> None:
        """Close as soon as nobody waits for an answer."""
        if self._waiting:
            self._retired = True
        else:
            self.close()

    def version_of(self, request: type[Request]) -> int:
        """The newest version of this request that both sides know."""
        key = request.api_key
        lowest, highest = self._versions.get(key, (0, -1))
        version = min(highest, request.versions.last, AT_MOST.get(key, highest))
        if version < max(lowest, request.versions.first):
            raise UnsupportedVersion(
                f"{self.address} and this client share no version of {request.__name__}"
            )
        return version

    async def ask(self, request: Request, *, timeout_s: float, at_most: int = 32767) -> Response:
        """Send the request and return its answer."""
        future = self.post(request, timeout_s=timeout_s, at_most=at_most)
        if not self._writable.is_set():
            await self._writable.wait()
        return await future

    def post(
        self, request: Request, *, timeout_s: float, at_most: int = 32767
    ) -> "asyncio.Future[Response]":
        """Send the request at once; requests posted one after the other arrive in this order."""
        self._check_open()
        version = min(self.version_of(type(request)), at_most)
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Response] = loop.create_future()
        metrics = self._metrics
        self._waiting[correlation_id] = (request.response, version, future, metrics.clock())
        timer = loop.call_later(timeout_s, self._time_out, type(request).__name__, timeout_s)
        future.add_done_callback(lambda _: timer.cancel())
        if self._silence_timer is None and self._on_silence is not None:
            self._listen()
        assert self._transport is not None
        frame = encode_request(request, version, correlation_id, self._client_id)
        metrics.request_size.record(len(frame))
        self._transport.write(frame)
        return future

    def tell(self, request: Request) -> None:
        """Send a request that has no answer (Produce with acks=0)."""
        self._check_open()
        assert self._transport is not None
        version = self.version_of(type(request))
        frame = encode_request(request, version, self._next_id, self._client_id)
        self._metrics.request_size.record(len(frame))
        self._transport.write(frame)
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF

    async def drain(self, timeout_s: float) -> None:
        """Wait until everything that was told is handed to the operating system."""
        if self._transport is None or self.closed:
            return
        self._transport.set_write_buffer_limits(0)  # `_writable` now means that nothing is left
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._writable.wait()

    def close(self, why: str = "") -> None:
        """Close; requests that wait fail with NetworkException."""
        self._fail(NetworkException(why or f"the connection to {self.address} was closed"))

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self._metrics.connections_made.record(1)

    def connection_lost(self, exc: Exception | None) -> None:
        why = f": {exc}" if exc else ""
        self._fail(NetworkException(f"the connection to {self.address} was lost{why}"))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        return memoryview(self._staging)[self._staged :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._large is not None:
            self._filled += nbytes
            if self._filled == len(self._large):
                frame, self._large = self._large, None
                self._receive(frame)
            return
        self._staged += nbytes
        self._split()

    def _split(self) -> None:
        """Take every whole answer out of the staging buffer; a large one gets a buffer of its own."""
        pos, staged = 0, self._staged
        while staged - pos >= 4:
            (size,) = _LENGTH.unpack_from(self._staging, pos)
            if not 4 <= size <= _LARGEST_ANSWER:
                self._fail(NetworkException(f"{self.address} sent an answer of {size} bytes"))
                return
            have = staged - pos - 4
            if have < size and size > _STAGING_BYTES - 4:
                self._large = bytearray(size)
                self._large[:have] = self._staging[pos + 4 : staged]
                self._filled = have
                pos = staged
                break
            if have < size:
                break
            self._receive(self._staging[pos + 4 : pos + 4 + size])
            pos += 4 + size
        if pos:
            rest = self._staging[pos:staged]
            self._staging[: len(rest)] = rest
            self._staged = len(rest)

    def _receive(self, frame: bytearray) -> None:
        (correlation_id,) = _LENGTH.unpack_from(frame, 0)
        waiting = self._waiting.pop(correlation_id, None)
        if waiting is None:
            self._fail(NetworkException(f"{self.address} answered what nobody had asked"))
            return
        self.is_silent = False
        cls, version, future, asked_at = waiting
        self._metrics.request_latency.record((self._metrics.clock() - asked_at) * 1000)
        self._metrics.incoming_bytes.record(len(frame))
        if cls is ApiVersionsResponse and frame[4:6] == b"\0\x23":
            version = 0  # "unsupported version" comes in the oldest layout (KIP-511)
        if future.done():
            return
        try:
            future.set_result(decode_response(cls, memoryview(frame), version)[1])
        except ProtocolError as error:
            future.set_exception(error)
        if self._retired and not self._waiting:
            self.close()

    def _listen(self) -> None:
        """Look again after a while whether the request that has waited longest still does."""
        self._oldest_seen = next(iter(self._waiting))
        loop = asyncio.get_running_loop()
        self._silence_timer = loop.call_later(SILENCE_S, self._listened)

    def _listened(self) -> None:
        self._silence_timer = None
        if not self._waiting or self._on_silence is None:
            return
        self.is_silent = next(iter(self._waiting)) == self._oldest_seen
        self._listen()
        if self.is_silent:
            self._on_silence(self)

    def _time_out(self, name: str, timeout_s: float) -> None:
        self._fail(
            RequestTimedOut(f"{self.address} did not answer a {name} within {timeout_s:g} s")
        )

    def _fail(self, error: KafkaError) -> None:
        if self._error is None:
            self._error = error
            if self._transport is not None:
                self._transport.abort()
                self._metrics.connections_lost.record(1)
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        waiting, self._waiting = self._waiting, {}
        self._writable.set()
        for _, _, future, _ in waiting.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # seen, even if its asker is gone

    def _check_open(self) -> None:
        if self._error is not None:
            raise NetworkException(str(self._error))

    async def _log_in(self, security: "ClientSecurity", timeout_s: float) -> None:
        session_ms = await security.log_in(self, timeout_s)
        if session_ms:
            loop = asyncio.get_running_loop()
            self._stale_at = loop.time() + session_ms / 1000 * _FRESH_SHARE

    async def _learn_versions(self, timeout_s: float) -> None:
        key = ApiVersionsRequest.api_key
        answer = ApiVersionsResponse()
        for version in (ApiVersionsRequest.versions.last, 0):
            self._versions[key] = (version, version)
            request = ApiVersionsRequest(
                client_software_name="tidelog", client_software_version=__version__
            )
            answer = cast(ApiVersionsResponse, await self.ask(request, timeout_s=timeout_s))
            if answer.error_code == 0:
                break
        if answer.error_code:
            raise error_of(answer.error_code)
        self._versions = {
            each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
        }
        self.features = {each.name: each.max_version_level for each in answer.finalized_features}


def _reason(error: OSError) -> str:
    """Why there is no connection, in words; asyncio's texts hold the address again, once for each that a name has."""
    verdict = getattr(error, "verify_message", None)
    if verdict:
        return f"its certificate is not trusted ({verdict}); see ssl.ca.location"
    words = getattr(error, "reason", None)
    if isinstance(words, str):
        return f"the TLS handshake failed ({words.replace('_', ' ').lower()}); does the listener speak TLS?"
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    numbers = {error.errno} if error.errno else {int(n) for n in _ERRNO.findall(str(error))}
    return ", ".join(os.strerror(each) for each in sorted(numbers)) or str(error)
