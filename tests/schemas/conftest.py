"""A registry without a broker: the real API over the real decisions, whose records are replayed at once."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.schemas.api import application
from tidelog.schemas.client import RegistryClient, _answer
from tidelog.schemas.journal import decode, encode
from tidelog.schemas.state import State


class MemoryRegistry:
    """In the place of `Registry`: a write goes through the bytes of its records into the state."""

    def __init__(self) -> None:
        self.state = State()
        self.records: list[tuple[bytes, bytes | None]] = []

    async def write(self, decide: Any, request: Any) -> Any:
        decision = decide(self.state)
        for entry in decision.entries:
            record = encode(entry)
            self.records.append(record)
            replayed = decode(*record)
            assert replayed is not None
            self.state.replay(replayed)
        return decision.answer


class Api:
    """Calls the ASGI application without a server."""

    def __init__(self, registry: MemoryRegistry) -> None:
        self.registry = registry
        self._application = application(registry)  # type: ignore[arg-type]
        self.headers: dict[bytes, bytes] = {}

    def raw(
        self, method: str, target: str, body: bytes = b"", headers: list[Any] | None = None
    ) -> tuple[int, bytes]:
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode("latin-1", "replace"),
            "query_string": query.encode("latin-1", "replace"),
            "headers": headers or [],
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(self._application(scope, receive, send))
        self.headers = dict(sent[0]["headers"])
        return sent[0]["status"], sent[1]["body"]

    def __call__(self, method: str, target: str, body: Any = None) -> tuple[int, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        status, answer = self.raw(method, target, data)
        return status, json.loads(answer)

    def register(self, subject: str, schema: Any, **more: Any) -> tuple[int, Any]:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self("POST", f"/subjects/{subject}/versions", {"schema": text, **more})


class MemoryClient(RegistryClient):
    """The real client, with the API at the other end of `_ask_one`; counts what it asked."""

    def __init__(self, api: Api) -> None:
        super().__init__("http://memory")
        self._api = api
        self.asked: list[str] = []

    def _ask_one(self, index: int, method: str, target: str, data: bytes | None) -> Any:
        self.asked.append(f"{method} {target}")
        return _answer(*self._api.raw(method, target, data or b""))


@pytest.fixture
def api() -> Api:
    return Api(MemoryRegistry())


@pytest.fixture(scope="session")
def new_api() -> Callable[[], Api]:
    """For properties, which want a new one for each example."""
    return lambda: Api(MemoryRegistry())


@pytest.fixture(scope="session")
def new_client() -> Callable[[], MemoryClient]:
    return lambda: MemoryClient(Api(MemoryRegistry()))


@pytest.fixture
def client(api: Api) -> MemoryClient:
    return MemoryClient(api)
