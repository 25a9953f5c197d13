"""Reads the numbers out of OpenTelemetry's metrics (OTLP, protobuf), as clients send them by KIP-714.

    MetricsData 1 resource_metrics → ResourceMetrics 2 scope_metrics → ScopeMetrics 2 metrics →
    Metric: 1 name, 5 gauge, 7 sum → 1 data_points →
    NumberDataPoint: 4 as_double, 6 as_int, 7 attributes → KeyValue: 1 key, 2 value

Histograms are left out.  Whatever does not fit raises `ProtocolError`.
"""

from collections.abc import Iterator
from struct import Struct as Packer
from typing import NamedTuple

from tidelog.errors import ProtocolError

_DOUBLE, _LONG = Packer("<d"), Packer("<q")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GAUGE, _SUM = 5, 7

Field = tuple[int, int, bytes | int]
"""Number, type on the wire, and value."""


class Point(NamedTuple):
    """One number."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float


def points(data: bytes, most: int) -> list[Point]:
    """The first `most` numbers."""
    found: list[Point] = []
    for resource in _inner(data, 1):
        for scope in _inner(resource, 2):
            for metric in _inner(scope, 2):
                for point in _points_of(metric):
                    if len(found) >= most:
                        return found
                    found.append(point)
    return found


def _points_of(metric: bytes) -> Iterator[Point]:
    name, numbers = "", []
    for number, _, value in _fields(metric):
        if number == 1:
            name = _text(value)
        elif number in (_GAUGE, _SUM) and isinstance(value, bytes):
            numbers += _inner(value, 1)
    for each in numbers:
        found: float | None = None
        attributes = []
        for number, kind, raw in _fields(each):
            if number in (4, 6) and kind == _FIXED64 and isinstance(raw, bytes):
                found = float((_DOUBLE if number == 4 else _LONG).unpack(raw)[0])
            elif number == 7 and isinstance(raw, bytes):
                attributes.append(_attribute(raw))
        if found is not None:
            yield Point(name, tuple(attributes), found)


def _attribute(data: bytes) -> tuple[str, str]:
    key, text = "", ""
    for number, _, value in _fields(data):
        if number == 1:
            key = _text(value)
        elif number == 2 and isinstance(value, bytes):
            for inner, kind, raw in _fields(value):
                if inner == 1:
                    text = _text(raw)
                elif kind == _VARINT:
                    text = str(raw)
    return key, text


def _inner(data: bytes, wanted: int) -> list[bytes]:
    return [
        value for number, _, value in _fields(data) if number == wanted and isinstance(value, bytes)
    ]


def _text(value: bytes | int) -> str:
    if not isinstance(value, bytes):
        raise ProtocolError("telemetry: a number stands where a text should be")
    return value.decode(errors="replace")


def _fields(data: bytes) -> Iterator[Field]:
    pos, end = 0, len(data)
    while pos < end:
        key, pos = _varint(data, pos)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value: bytes | int
            value, pos = _varint(data, pos)
        else:
            if kind == _BYTES:
                length, pos = _varint(data, pos)
            elif kind in (_FIXED64, _FIXED32):
                length = 8 if kind == _FIXED64 else 4
            else:
                raise ProtocolError(f"telemetry: a field of the unknown type {kind}")
            if length > end - pos:
                raise ProtocolError(
                    f"telemetry: a field of {length} bytes, of which {end - pos} are there"
                )
            value, pos = data[pos : pos + length], pos + length
        yield number, kind, value


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    value = shift = 0
    while pos < len(data) and shift < 64:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    raise ProtocolError("telemetry: a number does not end")
