"""Families as the text that Prometheus reads, made by its own client library, a slice at a time.

A family with a row for each partition is written here, line by line, below the head that the library makes: for ten thousand
partitions that is ten times as quick (`benchmarks/metrics.py`).
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from prometheus_client import Metric, generate_latest

from tidelog.broker.metrics.families import Family, Found, Row
from tidelog.measures import Durations, Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SLICE_ROWS = 250


def render(found: Iterable[Found]) -> Iterator[bytes]:
    """The text in pieces, each of which takes little time."""
    for family, rows in found:
        if family.many:
            yield from _many(family, rows)
        else:
            yield _by_library(family, rows)


def _by_library(family: Family, rows: Iterable[Row]) -> bytes:
    # The library adds the `_total` of a counter by itself.
    metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
    for row in rows:
        labels = dict(zip(family.labels, row.labels, strict=True))
        for suffix, more, value in _samples(family, row):
            metric.add_sample(family.name + suffix, labels | more, value)
    return generate_latest(_One(metric))


def _samples(family: Family, row: Row) -> Iterator[tuple[str, dict[str, str], float]]:
    value = row.value
    if isinstance(value, Durations):
        for quantile, seconds in value.quantiles():
            yield "", {"quantile": str(quantile)}, seconds * family.scale
        yield "_count", {}, value.count if row.happened is None else row.happened
        yield "_sum", {}, value.total_s * family.scale
    elif isinstance(value, Histogram):
        for bound, count in value.cumulative():
            yield "_bucket", {"le": str(float(bound))}, count
        yield "_bucket", {"le": "+Inf"}, value.count
        yield "_count", {}, value.count
        yield "_sum", {}, value.total_s * family.scale
    else:
        yield "", {}, value


def _many(family: Family, rows: Iterable[Row]) -> Iterator[bytes]:
    yield _by_library(family, ())
    rows = iter(rows)
    while some := list(islice(rows, _SLICE_ROWS)):
        yield "".join([_line(family, each) for each in some]).encode()


def _line(family: Family, row: Row) -> str:
    value = row.value
    assert isinstance(value, float | int), family.name
    labels = ",".join(
        [f'{name}="{_escaped(text)}"' for name, text in zip(family.labels, row.labels, strict=True)]
    )
    return f"{family.name}{{{labels}}} {value}\n"


def _escaped(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return text


class _One:
    """A registry of one family."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric
