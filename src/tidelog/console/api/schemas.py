"""Schemas of the registry: subjects, their versions, compatibility, and registering another version."""

from typing import Annotated, Literal

from fastapi import Path, Query
from pydantic import BaseModel, Field

from tidelog.console.api.asking import (
    INT32,
    Asks,
    Confirmed,
    MayWrite,
    SubjectName,
    confirm,
    router,
)
from tidelog.dataclass import dataclass
from tidelog.schemas.client import RegistryClient
from tidelog.schemas.model import Schema

ROUTER = router("schemas")

_SCHEMA_CHARACTERS = 1 << 20
Level = Literal[
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
]


@dataclass(frozen=True, slots=True)
class SubjectView:
    subject: str
    versions: list[int]
    compatibility: str


@dataclass(frozen=True, slots=True)
class SchemaView:
    subject: str
    version: int
    id: int
    type: str
    text: str


class NewSchema(BaseModel):
    """A schema to be registered; with `dry_run` it is only compared with the last version."""

    text: Annotated[str, Field(min_length=1, max_length=_SCHEMA_CHARACTERS)]
    type: Literal["AVRO", "JSON", "PROTOBUF"] = "AVRO"
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Registration:
    subject: str
    id: int | None
    dry_run: bool
    incompatibilities: list[str]
    """Why it may not follow the last version; none if it may."""


class NewLevel(BaseModel):
    level: Level


@dataclass(frozen=True, slots=True)
class LevelView:
    subject: str
    level: str


@dataclass(frozen=True, slots=True)
class DeletedSubject:
    subject: str
    versions: list[int]


@ROUTER.get("/schemas")
async def list_subjects(
    clients: Asks, prefix: Annotated[str, Query(max_length=500)] = ""
) -> list[str]:
    """All subjects."""
    return await clients.with_registry(lambda registry: registry.subjects(prefix))


@ROUTER.get("/schemas/{subject}")
async def describe_subject(subject: SubjectName, clients: Asks) -> SubjectView:
    """The versions of a subject, and the compatibility that holds for it."""

    def ask(registry: RegistryClient) -> SubjectView:
        return SubjectView(subject, registry.versions(subject), registry.compatibility(subject))

    return await clients.with_registry(ask)


@ROUTER.get("/schemas/{subject}/versions/{version}")
async def describe_version(
    subject: SubjectName, version: Annotated[int, Path(ge=1, le=INT32)], clients: Asks
) -> SchemaView:
    """One version of a subject."""

    def ask(registry: RegistryClient) -> SchemaView:
        found = registry.version(subject, version)
        return SchemaView(
            found.subject, found.version, found.id, found.schema.type, found.schema.text
        )

    return await clients.with_registry(ask)


@ROUTER.post("/schemas/{subject}", dependencies=[MayWrite])
async def register_schema(subject: SubjectName, body: NewSchema, clients: Asks) -> Registration:
    """Register a schema under a subject, or with `dry_run` tell whether it could be."""
    schema = Schema(body.text, body.type)

    def ask(registry: RegistryClient) -> Registration:
        if body.dry_run:
            known = subject in registry.subjects()
            why = registry.incompatibilities(subject, schema) if known else []
            return Registration(subject, None, True, why)
        return Registration(subject, registry.register(subject, schema), False, [])

    return await clients.with_registry(ask)


@ROUTER.put("/schemas/{subject}/compatibility", dependencies=[MayWrite])
async def set_compatibility(subject: SubjectName, body: NewLevel, clients: Asks) -> LevelView:
    """Set the compatibility of a subject."""
    await clients.with_registry(lambda registry: registry.set_compatibility(body.level, subject))
    return LevelView(subject, body.level)


@ROUTER.delete("/schemas/{subject}", dependencies=[MayWrite])
async def delete_subject(
    subject: SubjectName, confirmed: Confirmed, clients: Asks
) -> DeletedSubject:
    """Hide all versions of a subject; messages that use them can still be read."""
    confirm(subject, confirmed)
    gone = await clients.with_registry(lambda registry: registry.delete_subject(subject))
    return DeletedSubject(subject, gone)
