"""JSON Schema for the registry: drafts 4 to 2020-12, checked against their meta-schemas by `jsonschema`.

A schema reads what another wrote if every document that fits the other fits it.  That is not decidable by comparing
keywords in general; the keywords below are compared as Confluent's registry compares them, with its content models:

    types            may be widened (integer → number; more types), not narrowed
    properties       by the content model: an *open* object takes anything under other names, a *closed* one
                     (additionalProperties false) nothing, a *partially open* one what its additionalProperties fits
    required         may shrink; a new required property needs a default
    enum, const      may grow
    limits           (minimum, maxLength, pattern, multipleOf, …) may be loosened or go
    items, tuples    like properties; allOf, anyOf, oneOf, not: each alternative of the writer needs one of the reader

What is only documentation (title, description, examples, format, $comment) makes no difference.  Absent: conditionals
(if/then/else), dependentSchemas, propertyNames, patternProperties and unevaluated*: a change of them is refused unless
they are equal, rather than called compatible.  That the alternatives of a oneOf exclude each other is taken for granted.
"""

import json
from collections.abc import Sequence
from typing import Any

from jsonschema import exceptions, validators

from tidelog.dataclass import dataclass
from tidelog.schemas.errors import InvalidSchema
from tidelog.schemas.formats.json_compatibility import Documents, differences


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A parsed schema and the documents that it may refer to."""

    root: Any
    documents: Documents

    @property
    def canonical(self) -> str:
        return json.dumps(self.root, separators=(",", ":"), ensure_ascii=False)

    @property
    def normalized(self) -> str:
        return json.dumps(self.root, separators=(",", ":"), ensure_ascii=False, sort_keys=True)

    def cannot_read(self, writer: "JsonSchema", names: tuple[str, str]) -> list[str]:
        found = differences(self.root, self.documents, writer.root, writer.documents)
        return [each.told(*names) for each in found]


def parse(text: str, references: Sequence[tuple[str, str]] = ()) -> JsonSchema:
    """The schema, checked against the meta-schema that it names (draft 2020-12 if none)."""
    documents: Documents = {}
    for name, referenced in references:
        documents[name] = _load(referenced, f"reference {name!r}: ")
    root = _load(text, "")
    for document in list(documents.values()):
        if isinstance(document, dict) and isinstance(document.get("$id"), str):
            documents.setdefault(document["$id"], document)
    return JsonSchema(root, documents)


def _load(text: str, where: str) -> Any:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(f"{where}the schema is not JSON: {error}") from None
    if not isinstance(given, dict | bool):
        raise InvalidSchema(f"{where}a JSON schema is an object, true or false")
    try:
        validators.validator_for(given, default=validators.Draft202012Validator).check_schema(given)
    except exceptions.SchemaError as error:
        raise InvalidSchema(f"{where}at {error.json_path}: {error.message}") from None
    except (
        ValueError,
        TypeError,
        AttributeError,
        KeyError,
    ) as error:  # it meets odd `$schema`s, `$ref`s
        raise InvalidSchema(f"{where}not a JSON schema: {error}") from None
    return given
