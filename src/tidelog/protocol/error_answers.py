"""The answer that tells a client of an error, for any API.

    response = error_answer(request, version, NotLeaderOrFollower())

What a request asks for is told back item by item: each topic, partition, group with the code, as Kafka does it.  The code
stands at the outermost level that has room for one, except where that level is about something else (see `_NESTED`).
The two messages are matched by the names of their fields, so a new API needs nothing here.
"""

from collections.abc import Iterator
from typing import Any

from tidelog.errors import KafkaError, ProtocolError

from .messages.fetch import FetchResponse
from .messages.metadata import MetadataResponse
from .schema import Field, Request, Response, Struct, element_of, struct_of, wire_of

_NESTED = (FetchResponse, MetadataResponse)
"""The code at the top of Fetch speaks of the session, that of Metadata of the client's whole connection."""

_CODES = ("error_code", "partition_error_code")
_SAME = {
    "partition_index": ("partition", "index"),
    "partition": ("partition_index",),
    "name": ("topic",),
    "topic": ("name",),
    "user": ("name",),
}
_SCALARS = {str: "string", int: "int32"}
_NAMES = frozenset(
    {"name", "topic", "group_id", "key", "transactional_id", "partition_index", "partition_id"}
)
"""What an item is called where the request has a bare text or number for it."""


def error_answer(request: Request, version: int, error: KafkaError) -> Response:
    """The response of this version; `ProtocolError` where it has no place for an error."""
    cls = type(request).response
    response: Response = _told(cls, request, version, error, top=cls in _NESTED)
    if not tells(response, error.code):
        raise ProtocolError(
            f"{cls.__name__} v{version} to this request cannot tell of an error: {error}"
        )
    return response


def tells(struct: Struct, code: int) -> bool:
    """Whether the code stands somewhere in it."""
    for name in struct.__fields__:
        value = getattr(struct, name)
        if name in _CODES and value == code:
            return True
        if isinstance(value, list) and any(
            isinstance(each, Struct) and tells(each, code) for each in value
        ):
            return True
    return False


def _told(
    cls: type[Struct], source: object, version: int, error: KafkaError, *, top: bool = False
) -> Any:
    """A struct of the answer, made from the part of the request that it answers to."""
    fields = {name: field for name, field in cls.__fields__.items() if version in field.versions}
    code = next((name for name in _CODES if name in fields and not top), None)
    values: dict[str, Any] = {}
    for name, field in fields.items():
        element = element_of(field.hint)
        inner = None if element is None else struct_of(element)
        if name == code:
            values[name] = error.code
        elif name == "error_message" and code:
            values[name] = error.message
        elif inner is not None:
            if code is None and _has_code(inner, version):
                values[name] = [
                    _told(inner, each, version, error)
                    for each in _asked(name, inner, source, version)
                ]
        elif element is None and (found := _identity(name, field, source, version)) is not None:
            values[name] = found
    return cls(**values)


def _has_code(cls: type[Struct], version: int) -> bool:
    for name, field in cls.__fields__.items():
        if version not in field.versions:
            continue
        element = element_of(field.hint)
        inner = None if element is None else struct_of(element)
        if name in _CODES or (inner is not None and _has_code(inner, version)):
            return True
    return False


def _asked(name: str, cls: type[Struct], source: object, version: int) -> list[Any]:
    """The items of the request that the items `cls` of the answer are about."""
    if not isinstance(source, Struct):
        return []
    for other, items in _arrays(source, version, first=name):
        if items and any(
            _identity(field, cls.__fields__[field], items[0], version) is not None
            for field in cls.__fields__
        ):
            return items
        if other == name:
            return items
    arrays = [items for _, items in _arrays(source, version, first=name)]
    return arrays[0] if len(arrays) == 1 and _is_nameless(cls) else []


def _is_nameless(cls: type[Struct]) -> bool:
    """Whether the items have nothing but an outcome (CreateAcls): then they are answered in their order."""
    return all(
        name in (*_CODES, "error_message") or element_of(field.hint) is not None
        for name, field in cls.__fields__.items()
    )


def _arrays(source: Struct, version: int, *, first: str) -> Iterator[tuple[str, list[Any]]]:
    """The arrays of the request, the one with the same name in front."""
    for name in sorted(source.__fields__, key=lambda each: each != first):
        value = getattr(source, name)
        if version in source.__fields__[name].versions and isinstance(value, list):
            yield name, value


def _identity(name: str, field: Field, source: object, version: int) -> Any:
    """What the request calls the item; None where it has no such name."""
    if isinstance(source, Struct):
        for each in (name, *_SAME.get(name, ())):
            known = source.__fields__.get(each)
            if known is not None and version in known.versions and known.hint == field.hint:
                return getattr(source, each)
        return None
    wire = wire_of(field.hint)
    fits = wire is not None and wire.name == _SCALARS.get(type(source))
    return source if fits and name in _NAMES else None
