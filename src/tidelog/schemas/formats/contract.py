"""What a schema language must offer to the registry; `avro`, `json_schema` and `protobuf` do.

Adding one is a module with a function `parse(text, references)`; `parse_schema` finds it by the type's name.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol, Self

from tidelog.schemas.errors import InvalidSchema
from tidelog.schemas.model import AVRO, JSON, PROTOBUF

_MODULES = {AVRO: "avro", JSON: "json_schema", PROTOBUF: "protobuf"}

Referenced = tuple[str, str]
"""The name under which a schema is referred to, and its text."""


class Parsed(Protocol):
    """A schema that was understood."""

    @property
    def canonical(self) -> str:
        """The text that is kept: two schemas with one canonical text are the same."""

    @property
    def normalized(self) -> str:
        """The same, and without what makes no difference to anybody."""

    def cannot_read(self, writer: Self, names: tuple[str, str]) -> list[str]:
        """Why data written with `writer` cannot be read with this; `names` are what to call this one and the other."""


def parse_schema(type: str, text: str, references: Sequence[Referenced] = ()) -> Parsed:
    """The schema in `text`; the references come with those first that others need.  Raises InvalidSchema."""
    if type not in _MODULES:
        raise InvalidSchema(f"Invalid schema type {type}")
    try:
        parse: Callable[[str, Sequence[Referenced]], Parsed] = import_module(
            f"tidelog.schemas.formats.{_MODULES[type]}"
        ).parse
    except ImportError as error:
        raise InvalidSchema(
            f"schemas of type {type} need {error.name}: pip install 'tidelog[schemas]'"
        ) from error
    try:
        return parse(text, references)
    except RecursionError:
        raise InvalidSchema("the schema is nested too deep") from None
