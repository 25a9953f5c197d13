"""Dataclasses and pydantic models to plain dicts and back.

`to_plain` looks at what it is given; `reader_of` makes, once for a class, a function that builds it from a dict.  Fields of
a dataclass are built by their annotations: other dataclasses, models, enums, lists, dicts and optional ones.
"""

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

Reader = Callable[[Any], Any]
_UNIONS = (typing.Union, types.UnionType)


def to_plain(value: Any) -> Any:
    """The same in dicts, lists and scalars; what is plain already is passed on as it is."""
    kind = type(value)
    if kind is dict:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _inner(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if hasattr(kind, "model_dump"):
        return value.model_dump()
    if isinstance(value, Mapping):
        return dict(value)
    return value


def _inner(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.name if not isinstance(value.value, str) else value.value
    if isinstance(value, list | tuple):
        return [_inner(each) for each in value]
    if isinstance(value, dict):
        return {key: _inner(each) for key, each in value.items()}
    return to_plain(value)


def reader_of(kind: Any) -> Reader:
    """A function that makes a `kind` of what was decoded."""
    if hasattr(kind, "model_validate"):
        validate: Reader = kind.model_validate
        return validate
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass_reader(kind)
    return _reader(kind) or (lambda value: value)


def _dataclass_reader(kind: type) -> Reader:
    hints = typing.get_type_hints(kind)
    names = [each.name for each in dataclasses.fields(kind) if each.init]
    readers: dict[str, Reader] | None = None

    def read(value: Mapping[str, Any]) -> Any:
        nonlocal readers
        if readers is None:  # on first use, so that a class may hold itself
            found = {name: _reader(hints[name]) for name in names}
            readers = {name: each for name, each in found.items() if each is not None}
        given = {name: value[name] for name in names if name in value}
        for name, each in readers.items():
            if given.get(name) is not None:
                given[name] = each(given[name])
        return kind(**given)

    return read


def _reader(hint: Any) -> Reader | None:
    """What must be done with a value of this annotation; None if nothing."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        readers = [each for each in map(_reader, arguments) if each is not None]
        return readers[0] if len(readers) == 1 else None
    if origin in (list, tuple) and arguments:
        return _list_reader(_reader(arguments[0]), list if origin is list else tuple)
    if origin is dict and len(arguments) == 2:
        return _dict_reader(_reader(arguments[1]))
    if not isinstance(hint, type):
        return None
    if issubclass(hint, enum.Enum):
        return lambda text: _member(hint, text)
    if dataclasses.is_dataclass(hint) or hasattr(hint, "model_validate"):
        return reader_of(hint)
    return None


def _list_reader(inner: Reader | None, made: Callable[[Any], Any]) -> Reader | None:
    return None if inner is None else lambda value: made(inner(each) for each in value)


def _dict_reader(inner: Reader | None) -> Reader | None:
    return None if inner is None else lambda value: {k: inner(v) for k, v in value.items()}


def _member(kind: type[enum.Enum], text: Any) -> enum.Enum:
    try:
        return kind(text)
    except ValueError:
        return kind[text]
