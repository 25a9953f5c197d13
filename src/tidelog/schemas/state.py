"""What is registered: the records of `_schemas`, replayed.

`replay` is the only mutation, at start and later.  Everything else answers questions.  No I/O here.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from tidelog.schemas.journal import (
    ClearSubjectKey,
    ConfigKey,
    DeleteSubjectKey,
    Entry,
    ModeKey,
    NoopKey,
    SchemaKey,
)
from tidelog.schemas.model import (
    DEFAULT_LEVEL,
    DEFAULT_MODE,
    Reference,
    Registered,
    Schema,
    SchemaId,
    Settings,
)

T = TypeVar("T")


class State:
    """All subjects with their versions, settings and modes."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, Registered]] = {}
        """By subject and version, deleted ones too; a subject has at least one."""
        self._by_id: dict[int, dict[tuple[str, int], Registered]] = {}
        """By id: under which subjects and versions the schema is registered, in that order."""
        self._ids: dict[Schema, SchemaId] = {}
        """By the schema itself.  Invariant: each has an entry in `_by_id`."""
        self._referrers: dict[tuple[str, int], set[tuple[str, int]]] = {}
        self._configs: dict[str | None, Settings] = {}
        self._modes: dict[str | None, str] = {}
        self.max_id = 0
        """The highest id ever given.  Invariant: never falls."""

    # The only mutation.

    def replay(self, entry: Entry) -> None:
        """Take in one record, in the order of the topic."""
        match entry:
            case SchemaKey(subject, version), Registered() as registered:
                self._put(subject, version, registered)
            case SchemaKey(subject, version), None:
                self._remove(subject, version)
            case ConfigKey(subject), (dict() | None) as settings:
                _set(self._configs, subject, settings)
            case ModeKey(subject), (str() | None) as mode:
                _set(self._modes, subject, mode)
            case DeleteSubjectKey(subject), int(last):
                for each in list(self._versions.get(subject, {}).values()):
                    if each.version <= last and not each.deleted:
                        self._put(subject, each.version, _deleted(each))
            case ClearSubjectKey(subject), str():
                self._clear(subject)
            case NoopKey(), int(highest):
                self.max_id = max(self.max_id, highest)

    def _put(self, subject: str, version: int, registered: Registered) -> None:
        self._remove(subject, version)
        self._versions.setdefault(subject, {})[version] = registered
        self._by_id.setdefault(registered.id, {})[(subject, version)] = registered
        # Should one schema have two ids (an import can do that), the first one stays its id.
        self._ids.setdefault(registered.schema, registered.id)
        for each in registered.schema.references:
            self._referrers.setdefault((each.subject, each.version), set()).add((subject, version))
        self.max_id = max(self.max_id, registered.id)

    def _remove(self, subject: str, version: int) -> None:
        old = self._versions.get(subject, {}).pop(version, None)
        if old is None:
            return
        if not self._versions[subject]:
            del self._versions[subject]
        places = self._by_id[old.id]
        del places[(subject, version)]
        if not places:
            del self._by_id[old.id]
            if self._ids.get(old.schema) == old.id:
                del self._ids[old.schema]
        for each in old.schema.references:
            self._referrers[(each.subject, each.version)].discard((subject, version))

    def _clear(self, subject: str | None) -> None:
        for name in [subject] if subject is not None else list(self._versions):
            for each in list(self._versions.get(name, {}).values()):
                if each.deleted:
                    self._remove(name, each.version)

    # Questions.

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """The subjects that begin so, in order; with `deleted` those that have only deleted versions, too."""
        return sorted(
            name
            for name in self._versions
            if name.startswith(prefix) and (deleted or self.has_subject(name))
        )

    def has_subject(self, subject: str, *, deleted: bool = False) -> bool:
        """Whether there is a version of it."""
        return any(deleted or not each.deleted for each in self._versions.get(subject, {}).values())

    def versions(self, subject: str, *, deleted: bool = False) -> list[Registered]:
        """In ascending order."""
        found = self._versions.get(subject, {})
        return [found[each] for each in sorted(found) if deleted or not found[each].deleted]

    def find(self, subject: str, version: int, *, deleted: bool = False) -> Registered | None:
        """A version by number; -1 is the latest."""
        if version == -1:
            return next(reversed(self.versions(subject, deleted=deleted)), None)
        found = self._versions.get(subject, {}).get(version)
        return found if found is not None and (deleted or not found.deleted) else None

    def schema(self, id: int, subject: str | None = None) -> Registered | None:
        """A schema by id, deleted softly or not; of that subject if there is one."""
        places = self._by_id.get(id)
        if not places:
            return None
        return next(
            (each for each in places.values() if each.subject == subject),
            next(iter(places.values())),
        )

    def places(self, id: int, *, deleted: bool = False) -> list[Registered]:
        """Where the schema with this id is registered."""
        found = self._by_id.get(id, {})
        return [found[key] for key in sorted(found) if deleted or not found[key].deleted]

    def id_of(self, schema: Schema) -> SchemaId | None:
        """The id that this very schema has."""
        return self._ids.get(schema)

    def referrers(self, subject: str, version: int, *, deleted: bool = False) -> list[Registered]:
        """Who refers to this version."""
        found = (
            self._versions[name][number]
            for name, number in sorted(self._referrers.get((subject, version), ()))
        )
        return [each for each in found if deleted or not each.deleted]

    def config(self, subject: str | None) -> Settings | None:
        """What was set for the subject, or for all."""
        return self._configs.get(subject)

    def config_in_scope(self, subject: str | None) -> Settings:
        """What holds for the subject: its own settings over those for all."""
        everyone = {"compatibilityLevel": DEFAULT_LEVEL, **(self._configs.get(None) or {})}
        return {**everyone, **(self._configs.get(subject) or {})} if subject else everyone

    def mode(self, subject: str | None) -> str | None:
        return self._modes.get(subject)

    def mode_in_scope(self, subject: str | None) -> str:
        """The mode for all wins where it forbids everything, else the subject's own."""
        everyone = self._modes.get(None, DEFAULT_MODE)
        if everyone == "READONLY_OVERRIDE" or subject is None:
            return everyone
        return self._modes.get(subject, everyone)

    def resolve(self, references: Iterable[Reference]) -> Iterator[tuple[Reference, Registered]]:
        """All schemas that are referred to, those that others need first; deleted ones are found too.

        Raises KeyError with the reference that leads nowhere.
        """
        seen: set[str] = set()

        def walk(some: Iterable[Reference]) -> Iterator[tuple[Reference, Registered]]:
            for each in some:
                if each.name in seen:
                    continue
                seen.add(each.name)
                found = self.find(each.subject, each.version, deleted=True)
                if found is None:
                    raise KeyError(each)
                yield from walk(found.schema.references)
                yield each, found

        yield from walk(references)


def _set(table: dict[str | None, T], subject: str | None, value: T | None) -> None:
    if value is None:
        table.pop(subject, None)
    else:
        table[subject] = value


def _deleted(each: Registered) -> Registered:
    return Registered(each.subject, each.version, each.id, each.schema, True)
