"""The values that the registry is about: schemas, references, levels and modes."""

from collections.abc import Mapping
from typing import Any, NewType

from tidelog.dataclass import dataclass

SchemaId = NewType("SchemaId", int)
"""The number that messages carry; one for each different schema, never given twice."""

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
SCHEMA_TYPES = (JSON, PROTOBUF, AVRO)
"""In the order in which Confluent's registry lists them."""

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")

DEFAULT_LEVEL = "BACKWARD"
DEFAULT_MODE = "READWRITE"

HIGHEST = 2**31 - 1
"""The largest id and the largest version."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one uses: under which name, and where it is registered."""

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as it is written: its text, its type, what it refers to, and what else was said of it."""

    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: str | None = None
    """JSON that is kept and given back, and not understood; so is the rule set."""
    rule_set: str | None = None


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema under a subject: the version says where in the subject, the id which schema it is."""

    subject: str
    version: int
    id: SchemaId
    schema: Schema
    deleted: bool = False
    """Softly: it is not listed, but data that carry its id can still be read."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What somebody asks to be registered, looked up or checked."""

    schema: Schema
    version: int = 0
    """0: the next one."""
    id: int = -1
    """-1: the registry's own; another may be given in mode IMPORT."""


Settings = Mapping[str, Any]
"""A CONFIG value: `compatibilityLevel`, and what else was put there."""
