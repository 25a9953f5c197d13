"""The compatibility levels: which older versions a new schema is held against, and in which direction.

BACKWARD   the new schema reads what the last one wrote: upgrade the consumers first
FORWARD    the last schema reads what the new one writes: upgrade the producers first
FULL       both;  …_TRANSITIVE: not the last one only, but all of the subject
"""

from collections.abc import Sequence
from functools import lru_cache

from tidelog.schemas.errors import InvalidSchema, invalid_schema
from tidelog.schemas.formats.contract import Parsed, Referenced, parse_schema
from tidelog.schemas.model import PROTOBUF, Registered, Schema
from tidelog.schemas.state import State

_LONG_TEXT = 20_000


@lru_cache(maxsize=2_000)
def _parsed(type: str, text: str, references: tuple[Referenced, ...]) -> Parsed:
    return parse_schema(type, text, references)


def parse(state: State, schema: Schema) -> Parsed:
    """The schema, understood; 42201 with the reason if it cannot be."""
    if not schema.text.strip():
        raise invalid_schema("Empty schema")
    try:
        found = [(each.name, it.schema.text) for each, it in state.resolve(schema.references)]
        return _parsed(schema.type, schema.text, tuple(found))
    except KeyError as error:
        missing = error.args[0]
        reason = f'No schema reference found for subject "{missing.subject}" and version {missing.version}'
        raise invalid_schema(f"Invalid schema of type {schema.type}, details: {reason}") from None
    except InvalidSchema as error:
        raise invalid_schema(f"Invalid schema of type {schema.type}, details: {error}") from None


def is_slow(schema: Schema) -> bool:
    """Whether understanding it may take so long that others should not wait for it."""
    return schema.type == PROTOBUF or len(schema.text) > _LONG_TEXT


def prepare(state: State, subject: str, schema: Schema) -> None:
    """Understand the schema, and those it will be held against, so that both are at hand; from any thread."""
    parse(state, schema)
    for each in state.versions(subject):
        parse(state, each.schema)


def incompatibilities(
    state: State, level: str, schema: Schema, earlier: Sequence[Registered]
) -> list[str]:
    """Why the schema may not follow these versions (ascending); none if it may."""
    if level == "NONE" or not earlier:
        return []
    new = parse(state, schema)
    for each in reversed(earlier if level.endswith("_TRANSITIVE") else earlier[-1:]):
        old = parse(state, each.schema)
        try:
            reasons = _against(each.schema.type, schema.type) or _reasons(level, new, old)
        except InvalidSchema as error:
            raise invalid_schema(
                f"cannot be held against version {each.version}: {error}"
            ) from None
        except RecursionError:
            raise invalid_schema(
                f"cannot be held against version {each.version}: types lead to each other too deep"
            ) from None
        if reasons:
            return [
                *reasons,
                f"{{oldSchemaVersion: {each.version}}}",
                f"{{oldSchema: '{each.schema.text}'}}",
                f"{{compatibility: '{level}'}}",
            ]
    return []


def _against(old: str, new: str) -> list[str]:
    if old == new:
        return []
    return [f"{{errorType:'SCHEMA_TYPE_MISMATCH', description:'{new} cannot follow {old}'}}"]


def _reasons(level: str, new: Parsed, old: Parsed) -> list[str]:
    reasons: list[str] = []
    if level.startswith(("BACKWARD", "FULL")):
        reasons += new.cannot_read(old, ("new", "old"))
    if level.startswith(("FORWARD", "FULL")):
        reasons += old.cannot_read(new, ("old", "new"))
    return reasons
