"""What column an Avro schema becomes: its Arrow type, and how a value of fastavro's becomes one of the column.

    made = column_of(json.loads(text))
    pa.array([made.convert(value) for value in values], made.type)

Logical types as Spark's own Avro reader has them; where it has none (times of day), the number that Avro keeps: milliseconds or microseconds
since midnight.  A named type is declared once, wherever that is, and may be used again anywhere behind it.

Absent: recursive schemas, unions of more than one type and null, decimals of more than 38 digits.
"""

from collections.abc import Callable
from datetime import datetime, time
from typing import Any

import pyarrow as pa

from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError

Convert = Callable[[Any], Any]

_DIGITS = 38
"""The most that a decimal of Spark's or Arrow's can have."""


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """A type, and what must be done to values; None if they can stay as they are."""

    type: pa.DataType
    conversion: Convert | None = None

    def convert(self, value: Any) -> Any:
        return value if self.conversion is None or value is None else self.conversion(value)


def column_of(schema: Any) -> AvroColumn:
    """The column of an Avro schema; SettingsError where there is none."""
    return _Walk().column(schema, "")


def arrow_type(schema: Any) -> pa.DataType:
    """Its type alone."""
    return column_of(schema).type


class _Walk:
    """Once through a schema, in the order in which names are declared."""

    def __init__(self) -> None:
        self._named: dict[str, AvroColumn | None] = {}
        """By full name; None while it is being declared."""

    def column(self, schema: Any, namespace: str) -> AvroColumn:
        if isinstance(schema, list):
            some = [each for each in schema if each != "null"]
            if len(some) != 1:
                raise SettingsError(f"a union of {len(some)} types cannot be a column: {schema}")
            return self.column(some[0], namespace)
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.column(kind, namespace)
        if kind == "array":
            return _array(self.column(schema["items"], namespace))
        if kind == "map":
            return _map(self.column(schema["values"], namespace))
        if kind in ("record", "error", "enum", "fixed"):
            return self._declared(schema, kind, namespace)
        return _logical(schema, kind) or self._by_name(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> AvroColumn:
        for full in (f"{namespace}.{name}", name):
            if full in self._named:
                found = self._named[full]
                if found is None:
                    raise SettingsError(
                        f"the Avro type {full!r} contains itself, so it cannot be a column"
                    )
                return found
        if name not in _PRIMITIVES:
            raise SettingsError(f"the Avro type {name!r} cannot be a column")
        return AvroColumn(_PRIMITIVES[name])

    def _declared(self, schema: Any, kind: str, namespace: str) -> AvroColumn:
        name = str(schema["name"])
        inside = name.rpartition(".")[0] or schema.get("namespace", namespace)
        full = name if "." in name or not inside else f"{inside}.{name}"
        self._named[full] = None
        made = _logical(schema, kind)
        if made is None:
            made = (
                AvroColumn(_PRIMITIVES[kind])
                if kind in _PRIMITIVES
                else _record(
                    schema["fields"],
                    [self.column(each["type"], inside) for each in schema["fields"]],
                )
            )
        self._named[full] = made
        return made


_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}


def _milliseconds(value: Any) -> Any:
    return _microseconds(value) // 1000 if isinstance(value, time) else value


def _microseconds(value: Any) -> Any:
    if not isinstance(value, time):
        return value
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _naive(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


_LOGICAL: dict[tuple[str, str], AvroColumn] = {
    ("int", "date"): AvroColumn(pa.date32()),
    ("int", "time-millis"): AvroColumn(pa.int32(), _milliseconds),
    ("long", "time-micros"): AvroColumn(pa.int64(), _microseconds),
    ("long", "timestamp-millis"): AvroColumn(pa.timestamp("us", "UTC")),
    ("long", "timestamp-micros"): AvroColumn(pa.timestamp("us", "UTC")),
    ("long", "local-timestamp-millis"): AvroColumn(pa.timestamp("us"), _naive),
    ("long", "local-timestamp-micros"): AvroColumn(pa.timestamp("us"), _naive),
    ("string", "uuid"): AvroColumn(pa.string(), str),
    ("fixed", "uuid"): AvroColumn(pa.string(), str),
}
"""By the type and its logical type.  What is not here is what Avro keeps, as the specification wants it."""


def _logical(schema: Any, kind: str) -> AvroColumn | None:
    name = schema.get("logicalType")
    if name == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = int(schema.get("precision", 0)), int(schema.get("scale", 0))
        if not 0 < precision <= _DIGITS or not 0 <= scale <= precision:
            raise SettingsError(
                f"a decimal of precision {precision} and scale {scale} cannot be a column; it may have 1 to {_DIGITS} digits"
            )
        return AvroColumn(pa.decimal128(precision, scale))
    return _LOGICAL.get((kind, name))


def _array(items: AvroColumn) -> AvroColumn:
    kind = pa.list_(pa.field("element", items.type))
    if items.conversion is None:
        return AvroColumn(kind)
    return AvroColumn(kind, lambda value: [items.convert(each) for each in value])


def _map(values: AvroColumn) -> AvroColumn:
    kind = pa.map_(pa.string(), values.type)
    if values.conversion is None:
        return AvroColumn(kind)
    return AvroColumn(
        kind, lambda value: {key: values.convert(each) for key, each in value.items()}
    )


def _record(fields: list[Any], columns: list[AvroColumn]) -> AvroColumn:
    names = [str(each["name"]) for each in fields]
    kind = pa.struct([pa.field(name, each.type) for name, each in zip(names, columns, strict=True)])
    changed = {
        name: each for name, each in zip(names, columns, strict=True) if each.conversion is not None
    }
    if not changed:
        return AvroColumn(kind)
    return AvroColumn(
        kind,
        lambda value: {
            **value,
            **{name: each.convert(value[name]) for name, each in changed.items()},
        },
    )
