"""A console for tests: the real server on a thread of its own, and a client that says what it got."""

import asyncio
import base64
import http.client
import json
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlencode

from tidelog.console.server import serve

WAIT_S = 120.0


class Answer(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def code(self) -> str:
        """Of an error."""
        return str(self.body["error"]["code"])

    @property
    def message(self) -> str:
        return str(self.body["error"]["message"])


class Console:
    """Runs while its `with` block does."""

    def __init__(self, config: Mapping[str, str], **options: Any) -> None:
        self._config = dict(config)
        self._options = options
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="console")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self.port = 0
        self.cookie: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(WAIT_S)
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._stopping is not None
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - told to who waits
            self._failure = error
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()

        def ready(host: str, port: int) -> None:
            self.port = port
            self._started.set()

        await serve(
            self._config, "127.0.0.1", 0, stopping=self._stopping, ready=ready, **self._options
        )

    # Asking.

    def raw(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            given = dict(headers or {})
            if self.cookie is not None:
                given.setdefault("Cookie", self.cookie)
            connection.request(method, path, body, given)
            response = connection.getresponse()
            data = response.read()
            told = {name.lower(): value for name, value in response.getheaders()}
        finally:
            connection.close()
        is_json = told.get("content-type", "").startswith("application/json")
        return Answer(response.status, json.loads(data) if is_json else data, told)

    def ask(self, method: str, path: str, body: Any = None, /, **query: Any) -> Answer:
        """Of the API; keywords are the query, `from_` stands for from."""
        given = {name.rstrip("_"): value for name, value in query.items() if value is not None}
        target = f"/api/v1{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")
        if body is None:
            return self.raw(method, target)
        headers = {"Content-Type": "application/json"}
        return self.raw(method, target, json.dumps(body).encode(), headers)

    def get(self, path: str, /, **query: Any) -> Any:
        answer = self.ask("GET", path, **query)
        assert answer.status == 200, answer
        return answer.body

    def post(self, path: str, body: Any) -> Any:
        answer = self.ask("POST", path, body)
        assert answer.status in (200, 201), answer
        return answer.body

    def login(self, user: str, password: str) -> Answer:
        answer = self.ask("POST", "/session", {"user": user, "password": password})
        if answer.status == 200:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer


def basic(user: str, password: str) -> dict[str, str]:
    coded = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {coded}"}


def segment(name: str) -> str:
    return quote(name, safe="")
