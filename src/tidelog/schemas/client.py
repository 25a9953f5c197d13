"""A client of a schema registry, ours or Confluent's; what cannot change is asked for once.

    registry = RegistryClient("http://localhost:8081")
    id = registry.register("orders-value", '{"type": "record", …}')
    registry.schema(id).text

Thread-safe: each thread has a connection of its own.  Several addresses are tried in turn.
A user and a password stand in the address (`https://alice:secret@host`) or are given as `auth`; `roots` is a PEM file that the
registry's certificate is checked against.  Absent: OAuth, client certificates, contexts.
"""

import base64
import http.client
import json
import ssl
import threading
import weakref
from collections.abc import Iterable
from typing import Any, Self
from urllib.parse import quote, unquote, urlencode, urlsplit

from tidelog.errors import SettingsError
from tidelog.schemas.errors import RegistryError, RegistryUnreachable
from tidelog.schemas.formats.contract import Referenced
from tidelog.schemas.journal import canonical_json, references_of
from tidelog.schemas.model import AVRO, Registered, Schema, SchemaId

_ACCEPT = "application/vnd.schemaregistry.v1+json"


class RegistryClient:
    """Asks a registry; ids, versions and the schemas behind them are remembered."""

    def __init__(
        self,
        url: str | Iterable[str],
        *,
        timeout_s: float = 30.0,
        auth: tuple[str, str] | None = None,
        roots: str | None = None,
    ) -> None:
        addresses = list(url.split(",") if isinstance(url, str) else url)
        auth = auth or next(filter(None, map(_login, addresses)), None)
        self._roots = roots
        self._addresses = [_address(each.strip()) for each in addresses]
        self._timeout_s = timeout_s
        self._headers = {"Accept": _ACCEPT, "Content-Type": _ACCEPT}
        if auth is not None:
            token = base64.b64encode(":".join(auth).encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        self._local = threading.local()
        self._open: set[http.client.HTTPConnection] = set()
        """All threads' connections, for `close`; one is added and removed by its thread alone."""
        self._finish = weakref.finalize(self, _close_all, self._open)
        # What an id means never changes, nor which id a schema has under a subject.
        self._schemas: dict[int, Schema] = {}
        self._ids: dict[tuple[str, Schema], SchemaId] = {}
        self._versions: dict[tuple[str, int], Registered] = {}

    def close(self) -> None:
        """Close all connections; a call afterwards opens a new one."""
        _close_all(self._open)
        self._local = threading.local()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Schemas.

    def schema(self, id: int) -> Schema:
        """The schema that messages with this id have."""
        found = self._schemas.get(id)
        if found is None:
            found = self._schemas[id] = _schema(self._ask("GET", f"/schemas/ids/{id}"))
        return found

    def register(self, subject: str, schema: Schema | str, *, normalize: bool = False) -> SchemaId:
        """Register the schema under the subject unless it is there; returns its id."""
        schema = _as_schema(schema)
        found = self._ids.get((subject, schema))
        if found is None:
            answer = self._ask(
                "POST", _path("subjects", subject, "versions"), _body(schema), normalize=normalize
            )
            found = self._ids[(subject, schema)] = SchemaId(int(answer["id"]))
        return found

    def look_up(
        self, subject: str, schema: Schema | str, *, normalize: bool = False, deleted: bool = False
    ) -> Registered:
        """The version of the subject that is this schema."""
        return _registered(
            self._ask(
                "POST",
                _path("subjects", subject),
                _body(_as_schema(schema)),
                normalize=normalize,
                deleted=deleted,
            )
        )

    def id_of(self, subject: str, schema: Schema | str, *, normalize: bool = False) -> SchemaId:
        """The id of a schema that is registered under the subject already."""
        schema = _as_schema(schema)
        found = self._ids.get((subject, schema))
        if found is None:
            registered = self.look_up(subject, schema, normalize=normalize)
            found = self._ids[(subject, schema)] = registered.id
        return found

    def latest(self, subject: str) -> Registered:
        """The last version; asked anew each time."""
        return _registered(self._ask("GET", _path("subjects", subject, "versions", "latest")))

    def version(self, subject: str, version: int) -> Registered:
        """A version by number."""
        found = self._versions.get((subject, version))
        if found is None:
            path = _path("subjects", subject, "versions", str(version))
            found = _registered(self._ask("GET", path, deleted=True))
            self._versions[(subject, version)] = found
        return found

    def referenced(self, schema: Schema) -> list[Referenced]:
        """The names and texts of all schemas that this one refers to, those that others need first."""
        found: dict[str, str] = {}

        def walk(some: Schema) -> None:
            for each in some.references:
                if each.name not in found:
                    other = self.version(each.subject, each.version).schema
                    walk(other)
                    found[each.name] = other.text

        walk(schema)
        return list(found.items())

    # Subjects.

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """All subjects."""
        return list(self._ask("GET", "/subjects", subjectPrefix=prefix, deleted=deleted))

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The numbers of its versions."""
        return list(self._ask("GET", _path("subjects", subject, "versions"), deleted=deleted))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Hide all its versions, or remove a hidden subject for good."""
        self._forget(subject)
        return list(self._ask("DELETE", _path("subjects", subject), permanent=permanent))

    def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> int:
        """Hide a version, or remove a hidden one for good."""
        self._forget(subject)
        path = _path("subjects", subject, "versions", str(version))
        return int(self._ask("DELETE", path, permanent=permanent))

    # Compatibility and modes.

    def compatibility(self, subject: str | None = None) -> str:
        """The level that holds for the subject, or for all."""
        path = _path("config", *([subject] if subject else []))
        return str(self._ask("GET", path, defaultToGlobal=True)["compatibilityLevel"])

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the level for the subject, or for all."""
        self._ask("PUT", _path("config", *([subject] if subject else [])), {"compatibility": level})

    def incompatibilities(
        self, subject: str, schema: Schema | str, version: int | str = "latest"
    ) -> list[str]:
        """Why the schema may not follow this version; none if it may."""
        path = _path("compatibility", "subjects", subject, "versions", str(version))
        answer = self._ask("POST", path, _body(_as_schema(schema)), verbose=True)
        return [] if answer["is_compatible"] else list(answer.get("messages") or ["incompatible"])

    def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> None:
        """Set the mode for the subject, or for all."""
        path = _path("mode", *([subject] if subject else []))
        self._ask("PUT", path, {"mode": mode}, force=force)

    # The wire.

    def _forget(self, subject: str) -> None:
        self._ids = {key: each for key, each in self._ids.items() if key[0] != subject}
        self._versions = {key: each for key, each in self._versions.items() if key[0] != subject}

    def _ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, **query: bool | str
    ) -> Any:
        given = {name: _text(each) for name, each in query.items() if each}
        target = f"{path}?{urlencode(given)}" if given else path
        data = None if body is None else json.dumps(body).encode()
        reasons: list[str] = []
        for index, address in enumerate(self._addresses):
            try:
                return self._ask_one(index, method, target, data)
            except (OSError, http.client.HTTPException) as error:
                reasons.append(f"{address[0]}:{address[1]}: {error}")
        raise RegistryUnreachable(f"no schema registry answers ({'; '.join(reasons)})")

    def _ask_one(self, index: int, method: str, target: str, data: bytes | None) -> Any:
        kept: dict[int, http.client.HTTPConnection] = self._local.__dict__.setdefault("kept", {})
        connection = kept.pop(index, None)
        prefix = self._addresses[index][3]
        if connection is not None:
            try:
                connection.request(method, prefix + target, data, self._headers)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException):
                self._drop(
                    connection
                )  # idle for too long; a new one tells whether somebody is there
                connection = None
        if connection is None:
            connection = self._connect(index)
            try:
                connection.request(method, prefix + target, data, self._headers)
                response = connection.getresponse()
            except BaseException:
                self._drop(connection)
                raise
        text = response.read()
        kept[index] = connection
        return _answer(response.status, text)

    def _connect(self, index: int) -> http.client.HTTPConnection:
        host, port, secure, _ = self._addresses[index]
        connection: http.client.HTTPConnection
        if secure:
            context = ssl.create_default_context(cafile=self._roots)
            connection = http.client.HTTPSConnection(
                host, port, timeout=self._timeout_s, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        self._open.add(connection)
        return connection

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        self._open.discard(connection)
        connection.close()


def _close_all(connections: set[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _answer(status: int, text: bytes) -> Any:
    try:
        told = json.loads(text) if text else None
    except ValueError:
        told = None
    if status < 400:
        return told
    if isinstance(told, dict) and "error_code" in told:
        raise RegistryError(status, int(told["error_code"]), str(told.get("message", "")))
    raise RegistryError(status, status, f"HTTP {status} from the registry")


def _address(url: str) -> tuple[str, int, bool, str]:
    parts = urlsplit(url if "//" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = url.rpartition("@")[2]  # a password may stand before it
        raise SettingsError(
            f"{shown!r} is not an address of a registry, such as http://localhost:8081"
        )
    secure = parts.scheme == "https"
    return parts.hostname, parts.port or (443 if secure else 80), secure, parts.path.rstrip("/")


def _login(url: str) -> tuple[str, str] | None:
    parts = urlsplit(url.strip())
    if not parts.username:
        return None
    return unquote(parts.username), unquote(parts.password or "")


def _path(*parts: str) -> str:
    return "".join(f"/{quote(each, safe='')}" for each in parts)


def _text(value: bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else value


def _as_schema(schema: Schema | str) -> Schema:
    return Schema(schema) if isinstance(schema, str) else schema


def _body(schema: Schema) -> dict[str, Any]:
    told: dict[str, Any] = {"schema": schema.text}
    if schema.type != AVRO:
        told["schemaType"] = schema.type
    if schema.references:
        told["references"] = [each.as_json() for each in schema.references]
    if schema.metadata is not None:
        told["metadata"] = json.loads(schema.metadata)
    if schema.rule_set is not None:
        told["ruleSet"] = json.loads(schema.rule_set)
    return told


def _schema(told: dict[str, Any]) -> Schema:
    extra = [
        None if told.get(name) is None else canonical_json(told[name])
        for name in ("metadata", "ruleSet")
    ]
    return Schema(
        told["schema"],
        told.get("schemaType") or AVRO,
        references_of(told.get("references")),
        *extra,
    )


def _registered(told: dict[str, Any]) -> Registered:
    return Registered(told["subject"], told["version"], SchemaId(told["id"]), _schema(told))
