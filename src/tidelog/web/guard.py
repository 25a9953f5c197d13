"""What every request must pass before it is looked at, and what every answer carries.

A console, and a registry, run beside a browser that other sites use as well.  So:

- the Host must be an address, `localhost`, this machine's name or one that was allowed: a foreign name that resolves to
  this machine (DNS rebinding) is refused;
- what comes from another origin (Sec-Fetch-Site, Origin) gets nothing from the API, whatever the method;
- what changes something must be of a type that no HTML form can send (JSON), so that a browser asks before it sends it from elsewhere;
- bodies are bounded;
- answers may not be framed, guessed at or kept, and the page runs no script but its own.
"""

import ipaddress
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_LIMIT_BYTES = 16 * 1024 * 1024

_UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]


Refusal = tuple[int, str, str]
"""The status, a word for programs and a sentence for people."""


def as_error(status: int, code: str, text: str) -> object:
    """The form of the console's errors."""
    return {"error": {"code": code, "message": text}}


class Guard:
    """An ASGI application around another one, which is served below `api`; what is beside it are pages."""

    def __init__(
        self,
        application: Application,
        hosts: Iterable[str] = (),
        *,
        name: str = "console",
        api: str = "/api/",
        content_types: Collection[str] = ("application/json",),
        told: Callable[[int, str, str], object] = as_error,
    ) -> None:
        self._application = application
        self._hosts = {"localhost", *(each.lower() for each in hosts)}
        self._name = name
        self._api = api
        self._content_types = content_types
        self._told = told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        # Names may have a slash in them (`a%2Fb`): the path is split before it is decoded.
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        scope["path"] = raw.partition(b"?")[0].decode("latin-1")
        is_api = scope["path"].startswith(self._api)
        refusal = self._refusal(scope, headers, is_api)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = b"no-store" if is_api else b"no-cache"
                message["headers"] = [
                    *message.get("headers", ()),
                    *_HEADERS,
                    (b"cache-control", kept),
                ]
            await send(message)

        if refusal is not None:
            await self._refuse(sending, refusal)
            return
        bounded = _Bounded(receive, sending, self._refuse)
        await self._application(scope, bounded.receive, bounded.send)

    def _refusal(self, scope: Scope, headers: dict[bytes, str], is_api: bool) -> Refusal | None:
        host = headers.get(b"host", "")
        if not self._is_ours(host):
            return (
                403,
                "host_refused",
                f"this {self._name} is not {host!r}; use its address, or start it with --allow-host NAME",
            )
        unsafe = scope["method"] in _UNSAFE
        site = headers.get(b"sec-fetch-site", "none")
        origin = headers.get(b"origin")
        if is_api or unsafe:
            if site not in ("same-origin", "none"):
                return 403, "cross_site", f"requests from another site are refused ({site})"
            # Before a proxy the browser speaks https, behind it we are spoken to in http.
            if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
                return 403, "cross_site", f"requests from {origin!r} are refused"
        if unsafe and scope["method"] != "DELETE":
            kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
            if kind not in self._content_types:
                wanted = " or ".join(self._content_types)
                return 415, "not_json", f"the body must be {wanted}, not {kind or 'nothing'!r}"
        length = headers.get(b"content-length", "0")
        if length.isdecimal() and int(length) > BODY_LIMIT_BYTES:
            return _too_large()
        return None

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        name = name.strip("[]").lower().rstrip(".")
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    async def _refuse(self, send: Send, refusal: Refusal) -> None:
        body = json.dumps(self._told(*refusal)).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": refusal[0], "headers": headers})
        await send({"type": "http.response.body", "body": body})


class _TooLarge(Exception):
    """More came than was announced, and more than is taken."""


class _Bounded:
    """Receives and counts; once too much has come, that is the answer, whatever the application makes of it."""

    def __init__(
        self,
        receive: Receive,
        send: Send,
        refuse: Callable[[Send, Refusal], Awaitable[None]],
    ) -> None:
        self._receive = receive
        self._send = send
        self._refuse = refuse
        self._size = 0
        self._answered = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > BODY_LIMIT_BYTES:
            raise _TooLarge
        return message

    async def send(self, message: Message) -> None:
        if self._size <= BODY_LIMIT_BYTES:
            await self._send(message)
        elif not self._answered:
            self._answered = True
            await self._refuse(self._send, _too_large())


def _too_large() -> Refusal:
    return 413, "too_large", f"the request is larger than {BODY_LIMIT_BYTES} bytes"
