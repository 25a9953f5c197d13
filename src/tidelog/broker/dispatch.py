"""From a frame to its handler, and from what the handler returns to the answer's bytes.

A handler is a function plus facts, and lives in the file of `broker/handlers/` that has the API's name:

    @handles(HeartbeatRequest, "0-4", allow=group(READ, "group_id"))
    async def heartbeat(request: HeartbeatRequest, ctx: Context) -> HeartbeatResponse: ...

It may be a plain `def` when it has nothing to wait for, which saves a task.  What it raises is answered:
a `KafkaError` with its code, anything else with `UnknownServerError` and a traceback in the log.  Where the
response has no error code at its top, an error that escapes the handler is told for each item that was asked for
(`protocol/error_answers.py`).

`@handles_frame` is for the two APIs whose speed matters (Produce, Fetch): the function decodes the frame itself
and returns the answer's bytes.  The frame is the network's buffer: it is valid until the function returns.
"""

import asyncio
import contextlib
import importlib
import inspect
import logging
import pkgutil
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import field
from struct import Struct as Packer
from typing import Any, Protocol, cast

from tidelog.broker.advertised import ADVERTISED
from tidelog.broker.context import Context, Services
from tidelog.broker.permissions import Allow
from tidelog.broker.request_times import ApiTimes, Probe
from tidelog.dataclass import dataclass
from tidelog.errors import KafkaError, ProtocolError, UnknownServerError, UnsupportedVersion
from tidelog.network.answer import Answer, Deferred, Ready
from tidelog.network.peer import Peer
from tidelog.network.watchdog import described
from tidelog.protocol.codec import decode
from tidelog.protocol.frame import encode_large_response, encode_response
from tidelog.protocol.headers import parse_request_header
from tidelog.protocol.messages import MODULES
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.protocol.schema import Request, Response, Versions

API_VERSIONS_KEY = 18

_PACKAGE = "tidelog.broker.handlers"
_BETWEEN_IMPORTS_S = 0.002
_NEEDED_FIRST = ("api_versions", "fetch", "metadata", "produce")

_log = logging.getLogger(__name__)
_HEADER = Packer(">hhih")  # api key, version, correlation id, length of the client id

FrameRun = Callable[[Services, Peer, memoryview, int, int, int], Answer]
"""(services, peer, frame, version, correlation id, position of the body) -> answer."""

RunServer = Callable[[Services, memoryview, int, int], tuple[int, bytes | Deferred | None]]
"""(services, buffer, position, end) -> (position after what was served, answers if there are any)."""


class Serving(Protocol):
    """What the network is given: the dispatcher, or what stands in front of it in a test."""

    def serve(self, peer: Peer, frame: memoryview) -> Answer:
        """The answer to one request."""
        ...

    def serve_run(
        self, peer: Peer, buffer: memoryview, pos: int, end: int
    ) -> tuple[int, bytes | Deferred | None]:
        """Serve several small requests at once, or none."""
        ...


Intercept = Callable[[Serving, Services], Serving]
"""Puts something in front of the dispatcher that may fail, delay or drop requests; a broker without it has no more to do."""


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """One API: what it takes, in which versions, and the function that answers."""

    request: type[Request]
    versions: Versions
    """What is answered."""
    advertised: Versions
    """What ApiVersions tells: older clients look for a low version that they then do not use."""
    run: Callable[..., Any]
    allow: Allow
    """Who may ask; see `permissions.py`."""
    by_frame: bool = False
    before_login: bool = False
    controller: bool = False
    """Whether only the controller can answer: other brokers hand the request on."""
    here: Callable[[Any], bool] | None = None
    """Of those, the requests that are for the broker that was asked all the same."""

    api_key: int = field(init=False)
    flexible_from: int = field(init=False)
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        flexible = self.request.flexible
        derived = {
            "api_key": self.request.api_key,
            "flexible_from": flexible.first if flexible.first <= flexible.last else 1 << 15,
            "is_async": inspect.iscoroutinefunction(self.run),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @property
    def name(self) -> str:
        """As Kafka calls the API."""
        return self.request.__name__.removesuffix("Request")


def handles(
    request: type[Request],
    versions: str,
    *,
    allow: Allow,
    advertised: str | None = None,
    before_login: bool = False,
    controller: bool = False,
    here: Callable[[Any], bool] | None = None,
) -> Callable[[Callable[[Any, Context], Any]], Handler]:
    """Make a function or coroutine `(request, ctx) -> response` the handler of `request`."""

    def make(run: Callable[[Any, Context], Any]) -> Handler:
        return Handler(
            request,
            Versions.parse(versions),
            Versions.parse(advertised or versions),
            run,
            allow,
            before_login=before_login,
            controller=controller,
            here=here,
        )

    return make


def handles_frame(
    request: type[Request], versions: str, *, allow: Allow, advertised: str | None = None
) -> Callable[[FrameRun], Handler]:
    """Make a function that decodes the frame and encodes the answer by itself the handler of `request`."""

    def make(run: FrameRun) -> Handler:
        return Handler(
            request,
            Versions.parse(versions),
            Versions.parse(advertised or versions),
            run,
            allow,
            by_frame=True,
        )

    return make


class Handlers:
    """All handlers.  Each is imported when its API is first asked for: all together take longer than a start."""

    def __init__(self, table: dict[int, Handler] | None = None) -> None:
        self._table = {} if table is None else table
        self._left = _modules() if table is None else []
        """Names of the modules that are still to be imported."""

    def get(self, api_key: int) -> Handler | None:
        """The handler of an API, None where there is none."""
        if api_key not in self._table and MODULES.get(api_key) in self._left:
            self._load(MODULES[api_key])
        return self._table.get(api_key)

    def load_next(self) -> bool:
        """Import one that is still missing; False where there is none left."""
        if self._left:
            self._load(self._left[0])
        return bool(self._left)

    async def load_all(self) -> None:
        """Import what is missing one by one, so that no client has to wait for all of them."""
        while self.load_next():  # noqa: ASYNC110
            await asyncio.sleep(_BETWEEN_IMPORTS_S)

    def advertised(self) -> dict[int, tuple[int, int]]:
        """The lowest and the highest version that is told of each API, by API key; imports nothing."""
        if self._left:
            return ADVERTISED
        return {key: handler.advertised for key, handler in sorted(self._table.items())}

    def __iter__(self) -> Iterator[Handler]:
        """By API key; imports all."""
        while self.load_next():
            pass
        return iter(handler for _, handler in sorted(self._table.items()))

    def _load(self, name: str) -> None:
        module = importlib.import_module(f"{_PACKAGE}.{name}")
        self._left.remove(name)
        for found in vars(module).values():
            if isinstance(found, Handler):
                known = found.request.versions
                assert MODULES[found.api_key] == name, "a handler is in the file of its API"
                assert known.first <= found.versions.first, name
                assert found.versions.last <= known.last, name
                assert self._table.setdefault(found.api_key, found) is found, name


def _modules() -> list[str]:
    """The files of the handlers, those that a client needs first in front."""
    package = importlib.import_module(_PACKAGE)
    found = [each.name for each in pkgutil.iter_modules(package.__path__)]
    return sorted(found, key=lambda name: (name not in _NEEDED_FIRST, name))


class Dispatcher:
    """Answers frames.  `dispatcher.serve` is what the network is given."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._handlers = services.handlers
        self._table: dict[int, tuple[Handler, ApiTimes]] = {}
        self._produce_run: RunServer | None = None

    def serve(self, peer: Peer, frame: memoryview) -> Answer:
        """The answer to one request frame (without its length); `ProtocolError` asks to close the connection."""
        if len(frame) < _HEADER.size:
            raise ProtocolError(f"a request of {len(frame)} bytes is too short for its header")
        api_key, version, correlation_id, client_bytes = _HEADER.unpack_from(frame)
        handler, times = self._table.get(api_key) or self._find(api_key, version)
        if not handler.versions[0] <= version <= handler.versions[1]:
            return self._wrong_version(handler, version, correlation_id)
        times.count += 1
        if times.count >= times.sample_at:
            return self._measured(times, peer, frame)
        pos = _HEADER.size + client_bytes if client_bytes > 0 else _HEADER.size
        if handler.flexible_from <= version:
            if pos < len(frame) and frame[pos] == 0:  # no tagged fields, as from every known client
                pos += 1
            else:
                pos = parse_request_header(frame).body_pos
        if handler.by_frame:
            try:
                answer: Answer = handler.run(
                    self._services, peer, frame, version, correlation_id, pos
                )
            except ProtocolError as error:
                raise ProtocolError(f"{handler.name} v{version}: {error}") from None
            return answer
        # A handler may keep parts of its request after it has returned; the frame is the network's.
        request, _ = decode(handler.request, bytes(frame), pos, version)
        client_id = _client_id(frame, client_bytes)
        ctx = Context(self._services, peer, version, correlation_id, client_id)
        if (
            handler.controller
            and not self._services.controller.is_active
            and not (handler.here is not None and handler.here(request))
        ):
            work = self._at_controller(handler, request, ctx, bytes(frame))
            return self._watched(work, handler, ctx, len(frame))
        if handler.is_async:
            work = self._finish(handler, request, ctx)
            return self._watched(work, handler, ctx, len(frame))
        return self._run(handler, request, ctx)

    def serve_run(
        self, peer: Peer, buffer: memoryview, pos: int, end: int
    ) -> tuple[int, bytes | Deferred | None]:
        """Serve the small Produce requests at `pos` together, if there are some, and nobody has to be asked."""
        if not self._services.authorizer.is_open:
            return pos, None
        if self._produce_run is None:
            from tidelog.broker.produce_runs import produce_run  # which imports the handler

            self._produce_run = produce_run
        stop, answers = self._produce_run(self._services, buffer, pos, end)
        produce = self._services.requests.produce
        if stop > pos and produce.count >= produce.sample_at:
            # One measurement stands for the whole run, all of which is answered together.
            now = self._services.clock.monotonic
            probe = Probe(produce, produce.next_sample(), now, peer.arrived_at, peer.arrived_at)
            return stop, cast(bytes | Deferred, probe.served(answers, peer, produce))
        return stop, answers

    def _watched(
        self, work: Coroutine[Any, Any, Ready], handler: Handler, ctx: Context, size: int
    ) -> Coroutine[Any, Any, Ready]:
        def describe() -> str:
            told = described(handler.api_key, ctx.api_version, ctx.client_id, size)
            return f"{told}, from {ctx.peer}"

        return self._services.watchdog.watched(work, describe)

    def _measured(self, times: ApiTimes, peer: Peer, frame: memoryview) -> Answer:
        """Serve a request, and see how long it takes."""
        services = self._services
        requests = services.requests
        weight = times.next_sample()
        times.count -= 1  # it is counted again below
        followers = requests.fetch_follower.count
        probe = Probe(times, weight, services.clock.monotonic, peer.arrived_at)
        answer = self.serve(peer, frame)
        if times.name == "Fetch":
            follows = requests.fetch_follower.count != followers
            times = requests.fetch_follower if follows else requests.fetch_consumer
        return probe.served(answer, peer, times)

    def _find(self, api_key: int, version: int) -> tuple[Handler, ApiTimes]:
        handler = self._handlers.get(api_key)
        if handler is None:
            raise ProtocolError(f"API key {api_key} (version {version}) is not served here")
        found = self._table[api_key] = handler, self._services.requests.of(handler.name)
        return found

    def _wrong_version(self, handler: Handler, version: int, correlation_id: int) -> Answer:
        if handler.api_key != API_VERSIONS_KEY:
            raise ProtocolError(
                f"{handler.name} v{version} is not served here ({handler.versions})"
            )
        # The body was not read: a client from the future has to learn what we speak (KIP-511).
        known = ApiVersion(
            api_key=API_VERSIONS_KEY,
            min_version=handler.versions.first,
            max_version=handler.versions.last,
        )
        told = ApiVersionsResponse(error_code=UnsupportedVersion.code, api_keys=[known])
        return encode_response(told, 0, correlation_id)

    def _run(self, handler: Handler, request: Any, ctx: Context) -> Answer:
        try:
            if not ctx.broker.authorizer.is_open:
                handler.allow(request, ctx)
            response = handler.run(request, ctx)
        except ProtocolError:
            raise
        except Exception as error:  # noqa: BLE001  (the root of the request)
            response = told(handler, request, error, ctx)
        finally:
            ctx.tell_refused()
        return encode_response(response, ctx.api_version, ctx.correlation_id)

    async def _at_controller(
        self, handler: Handler, request: Any, ctx: Context, frame: bytes
    ) -> Ready:
        from tidelog.broker.forwarding import at_controller  # a single broker has no use for it

        try:
            return await at_controller(frame, ctx, lambda: self._finish(handler, request, ctx))
        except KafkaError as error:
            response = told(handler, request, error, ctx)
            return encode_response(response, ctx.api_version, ctx.correlation_id)

    async def _finish(self, handler: Handler, request: Any, ctx: Context) -> Ready:
        try:
            if not ctx.broker.authorizer.is_open:
                handler.allow(request, ctx)
            response = await handler.run(request, ctx)
        except ProtocolError:
            raise
        except Exception as error:  # noqa: BLE001  (the root of the request)
            response = told(handler, request, error, ctx)
        finally:
            ctx.tell_refused()
        if ctx.broker.trail is not None:
            ctx.broker.trail.changed(handler.api_key, request, response, ctx.peer)
        return await encode_large_response(response, ctx.api_version, ctx.correlation_id)


def _client_id(frame: memoryview, length: int) -> str | None:
    if length < 0:
        return None
    raw = bytes(frame[_HEADER.size : _HEADER.size + length])
    if len(raw) < length:
        raise ProtocolError(f"a client id of {length} bytes does not fit into its frame")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ProtocolError("the client id is not UTF-8") from None


def told(handler: Handler, request: Any, error: Exception, ctx: Context) -> Response:
    """The response that tells a client of `error`: at its top, or for each item that was asked for."""
    if not isinstance(error, KafkaError):
        _log.error("%s v%d from %s failed", handler.name, ctx.api_version, ctx.peer, exc_info=error)
        error = UnknownServerError()
    ctx.broker.requests.failed(handler.name, error)
    fields = handler.request.response.__fields__
    if "error_code" not in fields:
        return _told_by_item(handler, request, error, ctx)
    values: dict[str, Any] = {"error_code": error.code}
    if "error_message" in fields:
        values["error_message"] = error.message
    return handler.request.response(**values)


def _told_by_item(handler: Handler, request: Any, error: KafkaError, ctx: Context) -> Response:
    if isinstance(request, Request):
        from tidelog.protocol.error_answers import error_answer  # rarely needed

        with contextlib.suppress(ProtocolError):
            return error_answer(request, ctx.api_version, error)
    raise ProtocolError(
        f"{handler.name} v{ctx.api_version} cannot tell of an error in its answer: {error}"
    )
