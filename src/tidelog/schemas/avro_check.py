"""A quick look at a value before it is encoded: for the types of which fastavro's encoder takes what does not fit.

It writes 1.5 as the int 1, "x" as the boolean true, "tea" as a list of three strings, anything as null.  Strings, bytes,
enums, fixed and unions of such types it checks by itself.  `checker` makes, once for a schema, a function that says True if nothing of
that kind is in a value; after a False `find_mismatch` looks closely and says where.
"""

from collections.abc import Callable
from typing import Any

from tidelog.schemas.avro_mismatch import LOGICAL
from tidelog.schemas.formats.avro_nodes import Array, Map, Node, Record, Union

Check = Callable[[Any], bool]

_INT = 2**31
_LONG = 2**63


def checker(node: Node) -> Check | None:
    """The function for this schema; None if there is nothing to look at."""
    return _checker(node, {})


def _checker(node: Node, made: dict[int, Check]) -> Check | None:
    match node:
        case Record():
            return _record(node, made)
        case Array():
            return _list(_checker(node.items, made))
        case Union():
            return _union(node, made)
        case Map():
            return _map(_checker(node.values, made))
    fits = _PRIMITIVES.get(node.type)
    if fits is not None and "logicalType" in node.props:
        return lambda value: isinstance(value, LOGICAL) or fits(value)
    return fits


def _list(fits: Check | None) -> Check:
    if fits is None:
        return lambda value: type(value) is list
    return lambda value: type(value) is list and all(map(fits, value))


def _map(fits: Check | None) -> Check:
    if fits is None:
        return lambda value: type(value) is dict
    return lambda value: type(value) is dict and all(map(fits, value.values()))


def _union(node: Union, made: dict[int, Check]) -> Check | None:
    if not any(isinstance(each, Array | Map | Record) for each in node.branches):
        return None
    # A branch without a check may take anything but a container: those must be one of the others'.
    branches = [_checker(each, made) or _scalar for each in node.branches]
    return lambda value: any(fits(value) for fits in branches)


def _scalar(value: Any) -> bool:
    return type(value) in (str, int, float, bool)


def _record(node: Record, made: dict[int, Check]) -> Check:
    if id(node) in made:
        return made[id(node)]
    fields: list[tuple[str, Check]] = []

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for name, fits in fields:  # noqa: SIM110 - a generator would cost more than the checks
            if name in value and not fits(value[name]):
                return False
        return True

    made[id(node)] = check  # before its fields: one of them may be the record itself
    for each in node.fields:
        inner = _checker(each.type, made)
        if inner is not None:
            fields.append((each.name, inner))
    return check


_PRIMITIVES: dict[str, Check] = {
    "null": lambda value: value is None,
    "boolean": lambda value: type(value) is bool,
    "int": lambda value: type(value) is int and -_INT <= value < _INT,
    "long": lambda value: type(value) is int and -_LONG <= value < _LONG,
    "float": lambda value: type(value) is float,
    "double": lambda value: type(value) is float,
}
