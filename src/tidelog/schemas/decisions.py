"""What a request to the registry comes to: records to be written, and the answer once they are.

Pure functions of the state.  Only the writer's instance calls those that return a `Decision`, one after the other, and
replays the records before it decides again; `look_up` and `check` are for every instance.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidelog.dataclass import dataclass
from tidelog.schemas import errors
from tidelog.schemas.compatibility import incompatibilities, parse
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
    HIGHEST,
    LEVELS,
    MODES,
    Proposal,
    Registered,
    Schema,
    SchemaId,
    Settings,
)
from tidelog.schemas.state import State

LATEST = -1

CONFIG_FIELDS = (
    "compatibilityGroup",
    "normalize",
    "alias",
    "validateFields",
    "validateRules",
    "validateNewSchemas",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)
"""What a CONFIG may hold beside the level.  Only `normalize` has an effect; the others are kept and given back."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Records, to be appended in this order at once, and what is answered then."""

    entries: tuple[Entry, ...]
    answer: Any


def register(state: State, subject: str, proposal: Proposal, *, normalize: bool) -> Decision:
    """Give the schema its version and id, unless it has them; answers with the registration."""
    _check_register_mode(state, subject, proposal)
    importing = state.mode_in_scope(subject) == "IMPORT"
    schema = _canonical(state, subject, proposal.schema, normalize)
    everything = state.versions(subject, deleted=True)
    live = [each for each in everything if not each.deleted]
    if proposal.version == 0:
        for each in live:
            if each.schema == schema and proposal.id in (-1, each.id):
                return Decision((), each)
    if not importing:
        level = str(state.config_in_scope(subject)["compatibilityLevel"])
        reasons = incompatibilities(state, level, schema, live)
        if reasons:
            raise errors.incompatible(subject, reasons)
    version = _next_version(proposal, everything, importing)
    id = _id_for(state, schema, proposal)
    entries: list[Entry] = [
        (SchemaKey(subject, each.version), None)
        for each in everything
        # A deleted version of the same schema would come back under its old number, too.
        if each.deleted
        and each.id == id
        and each.version != version
        and not state.referrers(subject, each.version, deleted=True)
    ]
    new = Registered(subject, version, id, schema)
    return Decision((*entries, (SchemaKey(subject, version), new)), new)


def delete_version(state: State, subject: str, version: int, *, permanent: bool) -> Decision:
    """Hide one version, or remove a hidden one; answers with its number."""
    _check_writable(state, subject)
    found = state.find(subject, version, deleted=permanent or version != LATEST)
    if found is None:
        if not state.has_subject(subject, deleted=True):
            raise errors.subject_not_found(subject)
        raise errors.version_not_found(version)
    if found.deleted and not permanent:
        raise errors.version_soft_deleted(subject, found.version)
    if state.referrers(subject, found.version, deleted=permanent):
        raise errors.reference_exists(subject, found.version)
    key = SchemaKey(subject, found.version)
    if not permanent:
        return Decision(((key, replace(found, deleted=True)),), found.version)
    if not found.deleted:
        raise errors.version_not_soft_deleted(subject, found.version)
    entries: list[Entry] = [(NoopKey(), state.max_id), (key, None)]
    if len(state.versions(subject, deleted=True)) == 1:
        entries += _without_settings(state, subject)
    return Decision(tuple(entries), found.version)


def delete_subject(state: State, subject: str, *, permanent: bool) -> Decision:
    """Hide all versions, or remove a subject that is hidden; answers with their numbers."""
    _check_writable(state, subject)
    if not state.has_subject(subject, deleted=True):
        raise errors.subject_not_found(subject)
    gone = state.versions(subject, deleted=permanent)
    if not permanent and not gone:
        raise errors.subject_soft_deleted(subject)
    for each in gone:
        referrers = state.referrers(subject, each.version, deleted=permanent)
        if any(other.subject != subject for other in referrers):
            raise errors.reference_exists(subject, each.version)
        if permanent and not each.deleted:
            raise errors.subject_not_soft_deleted(subject)
    numbers = [each.version for each in gone]
    if not permanent:
        return Decision(((DeleteSubjectKey(subject), numbers[-1]),), numbers)
    entries: list[Entry] = [(NoopKey(), state.max_id)]
    entries += [(SchemaKey(subject, number), None) for number in reversed(numbers)]
    return Decision((*entries, *_without_settings(state, subject)), numbers)


def set_config(state: State, subject: str | None, given: Mapping[str, Any]) -> Decision:
    """Change the level and what else is given; answers with all that is set now."""
    _check_writable(state, subject)
    settings: dict[str, Any] = dict(state.config(subject) or {})
    if (level := given.get("compatibility")) is not None:
        if not isinstance(level, str) or level.upper() not in LEVELS:
            raise errors.invalid_compatibility()
        settings["compatibilityLevel"] = level.upper()
    settings |= {name: given[name] for name in CONFIG_FIELDS if given.get(name) is not None}
    return Decision(((ConfigKey(subject), settings),), settings)


def delete_config(state: State, subject: str | None) -> Decision:
    """Back to the default; answers with what was set."""
    _check_writable(state, subject)
    old = state.config(subject)
    if old is None and subject is not None:
        raise errors.subject_not_found(subject)
    return Decision(((ConfigKey(subject), None),), old or state.config_in_scope(None))


def set_mode(state: State, subject: str | None, mode: Any, *, force: bool) -> Decision:
    """Change the mode; IMPORT only where there is nothing yet, unless forced."""
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise errors.invalid_mode()
    mode = mode.upper()
    entries: list[Entry] = []
    if mode == "IMPORT" and state.mode_in_scope(subject) != "IMPORT" and not force:
        names = [subject] if subject is not None else state.subjects(deleted=True)
        if any(state.has_subject(name) for name in names):
            raise errors.not_permitted("Cannot import since found existing subjects")
        entries = _cleared(state, subject, names)
    return Decision((*entries, (ModeKey(subject), mode)), mode)


def delete_mode(state: State, subject: str | None) -> Decision:
    """Back to the mode for all; answers with what it was."""
    old = state.mode(subject)
    if old is None:
        raise errors.subject_not_found(str(subject))
    return Decision(((ModeKey(subject), None),), old)


def look_up(
    state: State, subject: str, proposal: Proposal, *, normalize: bool, deleted: bool
) -> Registered:
    """The version of the subject that is this schema."""
    if not state.has_subject(subject, deleted=deleted):
        raise errors.subject_not_found(subject)
    schema = _canonical(state, subject, proposal.schema, normalize)
    for each in reversed(state.versions(subject, deleted=deleted)):
        if each.schema == schema:
            return each
    raise errors.schema_not_found()


def check(
    state: State, subject: str, version: int | None, proposal: Proposal, *, normalize: bool
) -> list[str]:
    """Why the schema may not follow a version, or those of the subject; none if it may."""
    if version is None:
        earlier = state.versions(subject)
    else:
        found = state.find(subject, version)
        if found is None and version != LATEST:
            raise errors.version_not_found(version)
        earlier = [found] if found is not None else []
    schema = _canonical(state, subject, proposal.schema, normalize)
    level = str(state.config_in_scope(subject)["compatibilityLevel"])
    return incompatibilities(state, level, schema, earlier)


def level_of(settings: Settings) -> dict[str, Any]:
    """A CONFIG as PUT answers it, where the level has another name."""
    told = {name: each for name, each in settings.items() if name != "compatibilityLevel"}
    if "compatibilityLevel" in settings:
        told = {"compatibility": settings["compatibilityLevel"], **told}
    return told


def _canonical(state: State, subject: str, schema: Schema, normalize: bool) -> Schema:
    parsed = parse(state, schema)
    normalize = normalize or bool(state.config_in_scope(subject).get("normalize"))
    return replace(schema, text=parsed.normalized if normalize else parsed.canonical)


def _next_version(proposal: Proposal, everything: list[Registered], importing: bool) -> int:
    following = everything[-1].version + 1 if everything else 1
    if proposal.version <= 0:
        return following
    if proposal.version != following and not importing:
        raise errors.invalid_schema("Version is not one more than previous version")
    return proposal.version


def _id_for(state: State, schema: Schema, proposal: Proposal) -> SchemaId:
    known = state.id_of(schema)
    if proposal.id < 0:
        if known is not None:
            return known
        if state.max_id >= HIGHEST:
            raise errors.store_failed("all ids have been given")
        return SchemaId(state.max_id + 1)
    there = state.schema(proposal.id)
    if there is not None and there.schema != schema:
        raise errors.not_permitted(f"Overwrite new schema with id {proposal.id} is not permitted.")
    return SchemaId(proposal.id)


def _check_register_mode(state: State, subject: str, proposal: Proposal) -> None:
    _check_writable(state, subject)
    mode = state.mode_in_scope(subject)
    if proposal.id >= 0 and mode != "IMPORT":
        raise errors.not_permitted(f"Subject {subject} is not in import mode")
    if proposal.id < 0 and mode == "IMPORT":
        raise errors.not_permitted(f"Subject {subject} is not in read-write mode")


def _check_writable(state: State, subject: str | None) -> None:
    if state.mode_in_scope(subject).startswith("READONLY"):
        raise errors.not_permitted(f"Subject {subject} is in read-only mode")


def _without_settings(state: State, subject: str) -> list[Entry]:
    entries: list[Entry] = []
    if state.mode(subject) is not None:
        entries.append((ModeKey(subject), None))
    if state.config(subject) is not None:
        entries.append((ConfigKey(subject), None))
    return entries


def _cleared(state: State, subject: str | None, names: list[str]) -> list[Entry]:
    """What was only hidden goes for good before an import."""
    hidden = [each for name in names for each in state.versions(name, deleted=True)]
    for each in hidden:
        others = state.referrers(each.subject, each.version, deleted=True)
        if any(other not in hidden for other in others):
            raise errors.reference_exists(each.subject, each.version)
    entries: list[Entry] = [(NoopKey(), state.max_id)]
    entries += [(SchemaKey(each.subject, each.version), None) for each in hidden]
    return [*entries, (ClearSubjectKey(subject), "")]
