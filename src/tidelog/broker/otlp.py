"""Reads the numbers out of OpenTelemetry's metrics (OTLP, protobuf), as clients send them by KIP-714.

    MetricsData 1 resource_metrics → ResourceMetrics 2 scope_metrics → ScopeMetrics 2 metrics →
    Metric: 1 name, 5 gauge, 7 sum → 1 data_points →
    NumberDataPoint: 4 as_double, 6 as_int, 7 attributes → KeyValue: 1 key, 2 value

Histograms are left out.  Whatever does not fit raises `ProtocolError`, and so does what has more fields than any client
sends: it is read in Python, one by one.  Names and values are cut to what can be shown.
"""

from collections.abc import Iterator, Sequence
from struct import Struct as Packer
from typing import NamedTuple

from tidelog.errors import ProtocolError

_DOUBLE, _LONG = Packer("<d"), Packer("<q")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GAUGE, _SUM = 5, 7

_MOST_FIELDS = 20_000
"""Of one message: a number takes about ten, and a client has some hundred of them."""
_ATTRIBUTES = 16
_TEXT_BYTES = 256

Field = tuple[int, int, memoryview | int]
"""Number, type on the wire, and value."""


class Point(NamedTuple):
    """One number."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float


def points(data: bytes, most: int, beginnings: Sequence[str] = ("",)) -> list[Point]:
    """The first `most` numbers whose names have one of these beginnings."""
    return _Reader().points(memoryview(data), most, tuple(beginnings))


class _Reader:
    """Reads one message, and counts its fields."""

    def __init__(self) -> None:
        self._left = _MOST_FIELDS

    def points(self, data: memoryview, most: int, beginnings: tuple[str, ...]) -> list[Point]:
        found: list[Point] = []
        for resource in self._inner(data, 1):
            for scope in self._inner(resource, 2):
                for metric in self._inner(scope, 2):
                    for point in self._points_of(metric, beginnings):
                        if len(found) >= most:
                            return found
                        found.append(point)
        return found

    def _points_of(self, metric: memoryview, beginnings: tuple[str, ...]) -> Iterator[Point]:
        name, numbers = "", []
        for number, _, value in self._fields(metric):
            if number == 1:
                name = _text(value)
            elif number in (_GAUGE, _SUM) and isinstance(value, memoryview):
                numbers.append(value)
        if not name.startswith(beginnings):
            return
        for each in (point for value in numbers for point in self._inner(value, 1)):
            found: float | None = None
            attributes: list[tuple[str, str]] = []
            for number, kind, raw in self._fields(each):
                if number in (4, 6) and kind == _FIXED64 and isinstance(raw, memoryview):
                    found = float((_DOUBLE if number == 4 else _LONG).unpack(raw)[0])
                elif number == 7 and isinstance(raw, memoryview) and len(attributes) < _ATTRIBUTES:
                    attributes.append(self._attribute(raw))
            if found is not None:
                yield Point(name, tuple(attributes), found)

    def _attribute(self, data: memoryview) -> tuple[str, str]:
        key, text = "", ""
        for number, _, value in self._fields(data):
            if number == 1:
                key = _text(value)
            elif number == 2 and isinstance(value, memoryview):
                for inner, kind, raw in self._fields(value):
                    if inner == 1:
                        text = _text(raw)
                    elif kind == _VARINT:
                        text = str(raw)
        return key, text

    def _inner(self, data: memoryview, wanted: int) -> Iterator[memoryview]:
        for number, _, value in self._fields(data):
            if number == wanted and isinstance(value, memoryview):
                yield value

    def _fields(self, data: memoryview) -> Iterator[Field]:
        for each in _fields(data):
            self._left -= 1
            if self._left < 0:
                raise ProtocolError(f"telemetry: more than {_MOST_FIELDS} fields")
            yield each


def _text(value: memoryview | int) -> str:
    if not isinstance(value, memoryview):
        raise ProtocolError("telemetry: a number stands where a text should be")
    return bytes(value[:_TEXT_BYTES]).decode(errors="replace")


def _fields(data: memoryview) -> Iterator[Field]:
    pos, end = 0, len(data)
    while pos < end:
        key, pos = _varint(data, pos)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value: memoryview | int
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


def _varint(data: memoryview, pos: int) -> tuple[int, int]:
    value = shift = 0
    while pos < len(data) and shift < 64:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    raise ProtocolError("telemetry: a number does not end")
