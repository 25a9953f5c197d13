"""HTTP for the registry: an ASGI application that finds the route, reads the body and writes JSON.

Paths are split before they are decoded, because a subject may have a slash in its name (`a%2Fb`).  What a client sends
that cannot be used gets an answer with a code and a text, never a traceback.
"""

import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, unquote

from tidelog.dataclass import dataclass
from tidelog.schemas.access import Access, not_allowed
from tidelog.schemas.errors import RegistryError, invalid_request
from tidelog.schemas.forwarding import FORWARDED_HEADER, Answer, Forwarded

_log = logging.getLogger(__name__)

CONTENT_TYPES = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
_NOT_LOGGED_IN = 401
_BODY_LIMIT_BYTES = 8 * 1024 * 1024

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Call:
    """A request that has found its route."""

    parameters: tuple[str, ...]
    """What stood in the path's places, decoded."""
    query: dict[str, list[str]]
    raw: Forwarded
    user: str = ""
    access: Access | None = None
    """None where nobody has to log in."""

    def may(self, operation: str, subject: str | None) -> bool:
        return self.access is None or self.access.may(self.user, operation, subject)

    def check(self, operation: str, subject: str | None) -> None:
        """403 unless the user may do this."""
        if not self.may(operation, subject):
            raise not_allowed(self.user, operation, subject)

    def text(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[-1]

    def flag(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def number(self, name: str, default: int) -> int:
        given = self.text(name, str(default))
        try:
            return int(given)
        except ValueError:
            raise invalid_request(f"{name}={given} is not a number") from None

    def page(self, found: list[Any]) -> list[Any]:
        """The part of a list that `offset` and `limit` ask for."""
        offset, limit = max(0, self.number("offset", 0)), self.number("limit", -1)
        return found[offset:] if limit < 0 else found[offset : offset + limit]

    def json(self) -> dict[str, Any]:
        """The body, which must be an object."""
        try:
            given = json.loads(self.raw.body, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise invalid_request(f"the body is not JSON: {error}") from None
        if not isinstance(given, dict):
            raise invalid_request("the body must be a JSON object")
        return given


Handler = Callable[[Call], Awaitable[Any]]
_ANYBODY = ""
"""The user where nobody has to log in."""


class Text(str):
    """An answer that is written as it stands, not as a JSON string."""


class Routes:
    """Handlers by method and path; `{}` in a path takes any one segment."""

    def __init__(self) -> None:
        self._table: dict[int, list[tuple[tuple[str, ...], dict[str, Handler]]]] = {}

    def add(self, method: str, path: str, handler: Handler) -> None:
        pattern = _segments(path)
        same_length = self._table.setdefault(len(pattern), [])
        for known, methods in same_length:
            if known == pattern:
                methods[method] = handler
                return
        same_length.append((pattern, {method: handler}))

    def find(self, method: str, path: str) -> tuple[Handler, tuple[str, ...]]:
        """The handler and what stands in the path's places; 404 or 405 if there is none."""
        segments = _segments(path)
        for pattern, methods in self._table.get(len(segments), ()):
            pairs = list(zip(pattern, segments, strict=True))
            if all(part in ("{}", given) for part, given in pairs):
                if method not in methods:
                    raise RegistryError(405, 405, "HTTP 405 Method Not Allowed")
                places = tuple(unquote(given) for part, given in pairs if part == "{}")
                return methods[method], places
        raise not_found()


class Application:
    """The ASGI application over a table of routes."""

    def __init__(self, routes: Routes, access: Access | None = None) -> None:
        self._routes = routes
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, body = await self._answer(scope, receive)
        headers = [
            (b"content-type", _content_type(scope).encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        if status == _NOT_LOGGED_IN:
            headers.append((b"www-authenticate", b'Basic realm="tidelog registry"'))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send(
            {"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body}
        )

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        try:
            raw_path = scope.get("raw_path") or scope["path"].encode()
            path = raw_path.partition(b"?")[0].decode("latin-1")
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
            authorization = headers.get(b"authorization", "")
            user = await self._access.who(authorization) if self._access is not None else _ANYBODY
            handler, parameters = self._routes.find(method, path)
            query_text = scope["query_string"].decode("latin-1")
            raw = Forwarded(
                method,
                f"{path}?{query_text}" if query_text else path,
                await _body(receive),
                FORWARDED_HEADER.encode() in headers,
                authorization,
            )
            query = parse_qs(query_text, keep_blank_values=True)
            return _told(await handler(Call(parameters, query, raw, user, self._access)))
        except RegistryError as error:
            told = {"error_code": error.code, "message": error.message}
            return error.status, _dump(told)
        except Exception:  # noqa: BLE001 - the request's root
            _log.exception("%s %s failed", scope["method"], scope["path"])
            text = "the registry failed in a way it did not expect; its log has the cause"
            return 500, _dump({"error_code": 50001, "message": text})


def not_found() -> RegistryError:
    return RegistryError(404, 404, "HTTP 404 Not Found")


def _told(answer: Any) -> tuple[int, bytes]:
    if isinstance(answer, Answer):
        return answer.status, answer.body
    if isinstance(answer, Text):
        return 200, answer.encode("utf-8", "replace")
    return 200, _dump(answer)


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > _BODY_LIMIT_BYTES:
            raise RegistryError(413, 413, f"the body is larger than {_BODY_LIMIT_BYTES} bytes")
        if not message.get("more_body"):
            break
    return b"".join(parts)


def _segments(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/")) if path.strip("/") else ()


def _content_type(scope: Scope) -> str:
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    for each in accepted.decode("latin-1").split(","):
        if (name := each.partition(";")[0].strip()) in CONTENT_TYPES:
            return name
    return CONTENT_TYPES[0]


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
