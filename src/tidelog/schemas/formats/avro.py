"""Avro for the registry.

Canonical is what Avro's `Schema.toString` gives; normalised has unknown attributes in order, too.  Absent: a schema sent with
its references written out is not recognised as the registered one with references.
"""

import json
from collections.abc import Sequence

from tidelog.dataclass import dataclass
from tidelog.schemas.errors import InvalidSchema
from tidelog.schemas.formats.avro_compatibility import differences
from tidelog.schemas.formats.avro_nodes import Named, Node, to_json
from tidelog.schemas.formats.avro_parser import parse as parse_avro


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A parsed schema and the names that its references define."""

    root: Node
    known: frozenset[str]

    @property
    def canonical(self) -> str:
        return _text(to_json(self.root, self.known))

    @property
    def normalized(self) -> str:
        return _text(to_json(self.root, self.known, sort=True))

    def cannot_read(self, writer: "AvroSchema", names: tuple[str, str]) -> list[str]:
        return [each.told(*names) for each in differences(self.root, writer.root)]


def parse(text: str, references: Sequence[tuple[str, str]] = ()) -> AvroSchema:
    """The schema, with the types of its references known."""
    names: dict[str, Named] = {}
    for name, referenced in references:
        try:
            parse_avro(referenced, names)
        except InvalidSchema as error:
            raise InvalidSchema(f"reference {name!r}: {error}") from error
    known = frozenset(names)
    return AvroSchema(parse_avro(text, names), known)


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
