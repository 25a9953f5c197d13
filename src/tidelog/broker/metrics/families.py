"""A metric is declared once, beside the code that finds its values; its help text is also its line in the guide.

    UNDER_REPLICATED = gauge("kafka_server_replicamanager_underreplicatedpartitions", "…")

    def collect(sight: Sight) -> Iterator[Found]:
        yield UNDER_REPLICATED.value(sight.partitions.under_replicated)

Names are those that the usual rules of Prometheus' JMX exporter make of Kafka's own, so that dashboards and alerts which
were written for Kafka go on working.  A few of those names break rules of Prometheus (`promtool check metrics`) and
have been changed; what Kafka does not have begins with `tidelog_`.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from tidelog.dataclass import dataclass
from tidelog.measures import Durations, Histogram

Kind = Literal["counter", "gauge", "summary", "histogram"]
Value = float | Durations | Histogram


class Row(NamedTuple):
    """One value, and to what it belongs."""

    labels: tuple[str, ...]
    value: Value
    happened: int | None = None
    """Of a summary, where more is known to have happened than was measured."""


@dataclass(frozen=True, slots=True)
class Family:
    """All values of one name."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    scale: float = 1.0
    """What a duration in seconds is multiplied with; Kafka's names say milliseconds."""
    many: bool = False
    """Whether there may be thousands of rows: a partition has one."""

    def value(self, value: Value) -> "Found":
        """The one value of a family without labels."""
        return Found(self, [Row((), value)])

    def rows(self, rows: "Iterable[Row | tuple[tuple[str, ...], float]]") -> "Found":
        return Found(self, (Row(*each) for each in rows))


class Found(NamedTuple):
    """A family with its rows; they may be made while they are read."""

    family: Family
    rows: Iterable[Row]


def counter(name: str, help: str, *labels: str, many: bool = False) -> Family:
    assert name.endswith("_total"), name
    return Family(name, "counter", help, labels, many=many)


def gauge(name: str, help: str, *labels: str, many: bool = False) -> Family:
    return Family(name, "gauge", help, labels, many=many)


def summary_ms(name: str, help: str, *labels: str) -> Family:
    """Of durations, in milliseconds as Kafka has them."""
    return Family(name, "summary", help, labels, scale=1000.0)


def histogram(name: str, help: str, *labels: str) -> Family:
    """Of durations, in seconds."""
    return Family(name, "histogram", help, labels)
