"""The REST API of Confluent's registry: what each call takes and answers.

Absent: contexts (there is the default one alone), metadata and rule sets are kept but not applied, `format`, tags, GUIDs,
associations, exporters, data encryption keys.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tidelog.schemas import decisions, errors
from tidelog.schemas.access import CONFIGURE, DELETE, READ, REGISTER, Access
from tidelog.schemas.compatibility import is_slow, prepare
from tidelog.schemas.decisions import LATEST, Decision, level_of
from tidelog.schemas.forwarding import Answer
from tidelog.schemas.http import Application, Call, Handler, Routes, Text, not_found
from tidelog.schemas.journal import canonical_json, references_of
from tidelog.schemas.model import AVRO, HIGHEST, SCHEMA_TYPES, Proposal, Registered, Schema
from tidelog.schemas.registry import Registry
from tidelog.schemas.state import State

_DEFAULT_CONTEXT = re.compile(r"\A:\.?:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RESERVED = ("__GLOBAL", "__EMPTY")


def application(registry: Registry, access: Access | None = None) -> Application:
    """The ASGI application of one instance; with `access` users log in, and may do what it says.

    The operation beside a handler is what the user must be allowed to do with the subject in the path.  Handlers without one
    look for themselves, at what they have found.
    """
    api = _Api(registry)
    routes = Routes()
    for method, path, handler, operation in (
        ("GET", "/", api.root, None),
        ("GET", "/contexts", api.contexts, None),
        ("GET", "/schemas", api.schemas, None),
        ("GET", "/schemas/types", api.types, None),
        ("GET", "/schemas/ids/{}", api.schema_by_id, None),
        ("GET", "/schemas/ids/{}/schema", api.schema_text_by_id, None),
        ("GET", "/schemas/ids/{}/subjects", api.subjects_of_id, None),
        ("GET", "/schemas/ids/{}/versions", api.versions_of_id, None),
        ("GET", "/subjects", api.subjects, None),
        ("POST", "/subjects/{}", api.look_up, READ),
        ("DELETE", "/subjects/{}", api.delete_subject, DELETE),
        ("GET", "/subjects/{}/versions", api.versions, READ),
        ("POST", "/subjects/{}/versions", api.register, REGISTER),
        ("GET", "/subjects/{}/versions/{}", api.version, READ),
        ("DELETE", "/subjects/{}/versions/{}", api.delete_version, DELETE),
        ("GET", "/subjects/{}/versions/{}/schema", api.version_text, READ),
        ("GET", "/subjects/{}/versions/{}/referencedby", api.referenced_by, READ),
        ("POST", "/compatibility/subjects/{}/versions", api.check_subject, READ),
        ("POST", "/compatibility/subjects/{}/versions/{}", api.check_version, READ),
        ("GET", "/config", api.config, None),
        ("PUT", "/config", api.set_config, CONFIGURE),
        ("DELETE", "/config", api.delete_config, CONFIGURE),
        ("GET", "/config/{}", api.config, READ),
        ("PUT", "/config/{}", api.set_config, CONFIGURE),
        ("DELETE", "/config/{}", api.delete_config, CONFIGURE),
        ("GET", "/mode", api.mode, None),
        ("PUT", "/mode", api.set_mode, CONFIGURE),
        ("DELETE", "/mode", api.delete_mode, CONFIGURE),
        ("GET", "/mode/{}", api.mode, READ),
        ("PUT", "/mode/{}", api.set_mode, CONFIGURE),
        ("DELETE", "/mode/{}", api.delete_mode, CONFIGURE),
    ):
        routes.add(method, path, _allowed(handler, operation) if operation else handler)
    return Application(routes, access)


def _allowed(handler: Handler, operation: str) -> Handler:
    async def checked(call: Call) -> Any:
        call.check(operation, _subject(call) if call.parameters else None)
        return await handler(call)

    return checked


class _Api:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @property
    def _state(self) -> State:
        return self._registry.state

    async def root(self, call: Call) -> Any:
        return {}

    async def contexts(self, call: Call) -> Any:
        return ["."]

    async def types(self, call: Call) -> Any:
        return list(SCHEMA_TYPES)

    # Schemas by id.

    async def schemas(self, call: Call) -> Any:
        deleted = call.flag("deleted")
        found = [
            each
            for name in self._state.subjects(_prefix(call), deleted=deleted)
            if call.may(READ, name)
            for each in (
                self._state.versions(name, deleted=deleted)[-1:]
                if call.flag("latestOnly")
                else self._state.versions(name, deleted=deleted)
            )
        ]
        return [_registered(each) for each in call.page(found)]

    async def schema_by_id(self, call: Call) -> Any:
        found = self._by_id(call)
        told = {key: each for key, each in _registered(found).items() if key not in _OF_VERSION}
        if call.flag("fetchMaxId"):
            told["maxId"] = self._state.max_id
        return told

    async def schema_text_by_id(self, call: Call) -> Any:
        return Text(self._by_id(call).schema.text)

    async def subjects_of_id(self, call: Call) -> Any:
        places = self._places(call)
        return call.page(list(dict.fromkeys(each.subject for each in places)))

    async def versions_of_id(self, call: Call) -> Any:
        places = self._places(call)
        return call.page([{"subject": each.subject, "version": each.version} for each in places])

    def _by_id(self, call: Call) -> Registered:
        id = _id(call.parameters[0])
        found = self._state.schema(id, call.text("subject") or None)
        if found is None or not self._may_read(call, id):
            raise errors.schema_not_found(id)
        return found

    def _may_read(self, call: Call, id: int) -> bool:
        """Whether one of the subjects that have this schema may be read."""
        return call.access is None or any(
            call.may(READ, each.subject) for each in self._state.places(id, deleted=True)
        )

    def _places(self, call: Call) -> list[Registered]:
        id = _id(call.parameters[0])
        if self._state.schema(id) is None or not self._may_read(call, id):
            raise errors.schema_not_found()
        subject = call.text("subject")
        places = self._state.places(id, deleted=call.flag("deleted"))
        return [
            each
            for each in places
            if (not subject or each.subject == subject) and call.may(READ, each.subject)
        ]

    # Subjects and versions.

    async def subjects(self, call: Call) -> Any:
        found = self._state.subjects(
            _prefix(call), deleted=call.flag("deleted") or call.flag("deletedOnly")
        )
        if call.flag("deletedOnly"):
            found = [each for each in found if not self._state.has_subject(each)]
        return call.page([each for each in found if call.may(READ, each)])

    async def versions(self, call: Call) -> Any:
        subject = _subject(call)
        deleted_only = call.flag("deletedOnly")
        deleted = call.flag("deleted") or deleted_only
        if not self._state.has_subject(subject, deleted=deleted):
            raise errors.subject_not_found(subject)
        found = self._state.versions(subject, deleted=deleted)
        return call.page([each.version for each in found if each.deleted or not deleted_only])

    async def version(self, call: Call) -> Any:
        return _registered(self._find(call, deleted=call.flag("deleted")))

    async def version_text(self, call: Call) -> Any:
        return Text(self._find(call, deleted=call.flag("deleted")).schema.text)

    async def referenced_by(self, call: Call) -> Any:
        found = self._find(call, deleted=True)
        referrers = self._state.referrers(
            found.subject, found.version, deleted=call.flag("deleted")
        )
        return call.page(list(dict.fromkeys(each.id for each in referrers)))

    def _find(self, call: Call, *, deleted: bool) -> Registered:
        subject, version = _subject(call), _version(call.parameters[1])
        found = self._state.find(subject, version, deleted=deleted)
        if found is None:
            if not self._state.has_subject(subject, deleted=deleted):
                raise errors.subject_not_found(subject)
            raise errors.version_not_found(version)
        return found

    async def look_up(self, call: Call) -> Any:
        subject, proposal = _subject(call), _proposal(call.json())
        await self._prepare(call, subject, proposal)
        found = decisions.look_up(
            self._state,
            subject,
            proposal,
            normalize=call.flag("normalize"),
            deleted=call.flag("deleted"),
        )
        return _registered(found)

    async def register(self, call: Call) -> Any:
        subject, proposal = _new_subject(call), _proposal(call.json())
        normalize = call.flag("normalize")
        await self._prepare(call, subject, proposal)
        if proposal.version == 0 and proposal.id < 0:
            # What is there already needs no writer.
            try:
                known = decisions.look_up(
                    self._state, subject, proposal, normalize=normalize, deleted=False
                )
                return {"id": known.id}
            except errors.RegistryError:
                pass
        return await self._write(
            call,
            lambda state: decisions.register(state, subject, proposal, normalize=normalize),
            lambda registered: {"id": registered.id},
        )

    async def delete_subject(self, call: Call) -> Any:
        subject, permanent = _subject(call), call.flag("permanent")
        return await self._write(
            call, lambda state: decisions.delete_subject(state, subject, permanent=permanent)
        )

    async def delete_version(self, call: Call) -> Any:
        subject, version = _subject(call), _version(call.parameters[1])
        permanent = call.flag("permanent")
        return await self._write(
            call,
            lambda state: decisions.delete_version(state, subject, version, permanent=permanent),
        )

    # Compatibility.

    async def check_subject(self, call: Call) -> Any:
        return await self._check(call, None)

    async def check_version(self, call: Call) -> Any:
        return await self._check(call, _version(call.parameters[1]))

    async def _check(self, call: Call, version: int | None) -> Any:
        verbose, normalize = call.flag("verbose"), call.flag("normalize")
        subject, proposal = _subject(call), _proposal(call.json())
        try:
            await self._prepare(call, subject, proposal)
            reasons = decisions.check(self._state, subject, version, proposal, normalize=normalize)
        except errors.RegistryError as error:
            if not verbose or error.code != errors.invalid_schema("").code:
                raise
            reasons = [error.message]
        told: dict[str, Any] = {"is_compatible": not reasons}
        return {**told, "messages": reasons} if verbose else told

    async def _prepare(self, call: Call, subject: str, proposal: Proposal) -> None:
        """Long schemas are understood in a thread, and are then at hand for the decision."""
        for each in proposal.schema.references:
            call.check(READ, each.subject)
        if is_slow(proposal.schema):
            await asyncio.to_thread(prepare, self._state, subject, proposal.schema)

    # Settings and modes, of a subject or of all.

    async def config(self, call: Call) -> Any:
        subject = _maybe_subject(call)
        if call.flag("defaultToGlobal") or subject is None:
            return dict(self._state.config_in_scope(subject))
        found = self._state.config(subject)
        if found is None:
            raise errors.no_subject_config(subject)
        return dict(found)

    async def set_config(self, call: Call) -> Any:
        subject, given = _maybe_subject(call), call.json()
        return await self._write(
            call, lambda state: decisions.set_config(state, subject, given), level_of
        )

    async def delete_config(self, call: Call) -> Any:
        subject = _maybe_subject(call)
        return await self._write(call, lambda state: decisions.delete_config(state, subject), dict)

    async def mode(self, call: Call) -> Any:
        subject = _maybe_subject(call)
        if call.flag("defaultToGlobal") or subject is None:
            return {"mode": self._state.mode_in_scope(subject)}
        found = self._state.mode(subject)
        if found is None:
            raise errors.no_subject_mode(subject)
        return {"mode": found}

    async def set_mode(self, call: Call) -> Any:
        subject, given, force = _maybe_subject(call), call.json().get("mode"), call.flag("force")
        return await self._write(
            call,
            lambda state: decisions.set_mode(state, subject, given, force=force),
            lambda mode: {"mode": mode},
        )

    async def delete_mode(self, call: Call) -> Any:
        subject = _maybe_subject(call)
        return await self._write(
            call,
            lambda state: decisions.delete_mode(state, subject),
            lambda mode: {"mode": mode},
        )

    async def _write(
        self,
        call: Call,
        decide: Callable[[State], Decision],
        told: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        answer = await self._registry.write(decide, call.raw)
        return answer if isinstance(answer, Answer) else told(answer)


_OF_VERSION = ("subject", "version", "id")


def _registered(each: Registered) -> dict[str, Any]:
    """A version as it is told; what is empty is left out."""
    schema = each.schema
    told: dict[str, Any] = {"subject": each.subject, "version": each.version, "id": each.id}
    if schema.type != AVRO:
        told["schemaType"] = schema.type
    if schema.references:
        told["references"] = [reference.as_json() for reference in schema.references]
    if schema.metadata is not None:
        told["metadata"] = json.loads(schema.metadata)
    if schema.rule_set is not None:
        told["ruleSet"] = json.loads(schema.rule_set)
    return {**told, "schema": schema.text}


def _proposal(given: Mapping[str, Any]) -> Proposal:
    text = given.get("schema")
    if not isinstance(text, str):
        raise errors.invalid_schema("Empty schema" if text is None else "schema must be a string")
    type = given.get("schemaType") or AVRO
    if type not in SCHEMA_TYPES:
        raise errors.invalid_schema(f"Invalid schema type {type}")
    try:
        references = references_of(given.get("references"))
    except (TypeError, KeyError, ValueError):
        raise errors.invalid_request(
            "references must be a list of objects with name, subject and version"
        ) from None
    extra = [
        None if given.get(name) is None else canonical_json(given[name])
        for name in ("metadata", "ruleSet")
    ]
    return Proposal(
        Schema(text, type, references, *extra),
        _number(given, "version", 0),
        _number(given, "id", -1),
    )


def _number(given: Mapping[str, Any], name: str, default: int) -> int:
    value = given.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value <= HIGHEST:
        raise errors.invalid_request(f"{name} must be a number from 1 to {HIGHEST}")
    return value


def _subject(call: Call) -> str:
    """The subject in the path; the default context may be named before it."""
    return _DEFAULT_CONTEXT.sub("", call.parameters[0])


def _maybe_subject(call: Call) -> str | None:
    return _new_subject(call) if call.parameters and _subject(call) else None


def _new_subject(call: Call) -> str:
    subject = _subject(call)
    wrong = not subject or subject in _RESERVED or _CONTROL.search(subject)
    if wrong or subject.startswith(":."):
        raise errors.invalid_subject(subject)
    try:
        subject.encode()
    except UnicodeEncodeError:
        raise errors.invalid_subject(ascii(subject)) from None
    return subject


def _prefix(call: Call) -> str:
    prefix = call.text("subjectPrefix")
    return "" if prefix in (":*:", ":.:", "::") else prefix


def _version(text: str) -> int:
    if text in ("latest", "-1"):
        return LATEST
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:12]) <= HIGHEST:
        raise errors.invalid_version(text)
    return int(text)


def _id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise not_found()
    return int(text)
