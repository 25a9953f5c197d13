"""What a client measures of itself, under the names of Kafka's manual; `client.metrics()` is a plain dict of numbers.

A sensor is fed once a batch, request or fetch, never once a record, and keeps two windows of half a minute, as Kafka's
do: an average, a maximum and a rate are those of the last minute at most, a total is of all times.  Feeding one takes no
lock: two threads that feed the same at one moment may lose a count, which no reader of metrics would miss.
"""

import time
from collections.abc import Callable

WINDOW_S = 30.0
"""Half of what averages, maxima and rates look back (metrics.sample.window.ms, two samples)."""

_SHORTEST_S = 1.0
"""A rate over less time than this would say little."""


class Sensor:
    """Values over time: their sum and number, and the largest."""

    __slots__ = ("_before", "_clock", "_now", "_started", "total", "total_count")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()
        # Sum, number and maximum since the start of this window, and of the one before.
        self._now = [0.0, 0.0, 0.0]
        self._before: tuple[float, list[float]] | None = None
        self.total = 0.0
        self.total_count = 0

    def record(self, value: float, times: int = 1) -> None:
        """Note a value, or so many that add up to it."""
        self._turn()
        window = self._now
        window[0] += value
        window[1] += times
        window[2] = max(window[2], value)
        self.total += value
        self.total_count += times

    @property
    def average(self) -> float:
        self._turn()
        count = self._sum(1)
        return self._sum(0) / count if count else 0.0

    @property
    def maximum(self) -> float:
        self._turn()
        return max(self._now[2], self._before[1][2] if self._before else 0.0)

    @property
    def rate(self) -> float:
        """Sum of the values a second."""
        return self._sum(0) / self._seconds()

    @property
    def count_rate(self) -> float:
        """Number of values a second."""
        return self._sum(1) / self._seconds()

    def _sum(self, place: int) -> float:
        return self._now[place] + (self._before[1][place] if self._before else 0.0)

    def _seconds(self) -> float:
        self._turn()
        start = self._before[0] if self._before else self._started
        return max(self._clock() - start, _SHORTEST_S)

    def _turn(self) -> None:
        """Begin another window if this one is over."""
        now = self._clock()
        if now - self._started < WINDOW_S:
            return
        # What is older than two windows is forgotten.
        recent = now - self._started < 2 * WINDOW_S
        self._before = (self._started, self._now) if recent else None
        self._started, self._now = now, [0.0, 0.0, 0.0]


class Metrics:
    """The sensors of one client by their names."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._readings: dict[str, Callable[[], float]] = {}
        # Of every client: its requests and connections.
        self.request_latency = self.averaged("request-latency")
        self.request_size = self.averaged("request-size")
        self._readings |= {
            "request-rate": lambda: self.request_size.count_rate,
            "request-total": lambda: self.request_size.total_count,
            "outgoing-byte-rate": lambda: self.request_size.rate,
            "outgoing-byte-total": lambda: self.request_size.total,
        }
        self.incoming_bytes = self.counted("incoming-byte")
        self._readings |= {
            "response-rate": lambda: self.incoming_bytes.count_rate,
            "response-total": lambda: self.incoming_bytes.total_count,
        }
        self.connections_made = self.counted("connection-creation")
        self.connections_lost = self.counted("connection-close")
        self.gauge(
            "connection-count", lambda: self.connections_made.total - self.connections_lost.total
        )

    def averaged(self, name: str) -> Sensor:
        """A sensor that is read as `name-avg` and `name-max`."""
        sensor = Sensor(self.clock)
        self._readings[f"{name}-avg"] = lambda: sensor.average
        self._readings[f"{name}-max"] = lambda: sensor.maximum
        return sensor

    def counted(self, name: str) -> Sensor:
        """A sensor that is read as `name-rate` and `name-total`."""
        sensor = Sensor(self.clock)
        self._readings[f"{name}-rate"] = lambda: sensor.rate
        self._readings[f"{name}-total"] = lambda: sensor.total
        return sensor

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """A number that is asked for when it is read."""
        self._readings[name] = read

    def read(self) -> dict[str, float]:
        """Everything as it is now."""
        return {name: float(read()) for name, read in sorted(self._readings.items())}


class ProducerMetrics(Metrics):
    """What a producer measures: its batches, from the first record to the acknowledgement."""

    def __init__(self) -> None:
        super().__init__()
        self.batch_size = self.averaged("batch-size")
        self.queue_time = self.averaged("record-queue-time")
        self.records_per_request = self.averaged("records-per-request")
        self.sent = self.counted("record-send")
        self.retried = self.counted("record-retry")
        self.failed = self.counted("record-error")
        self.split = self.counted("batch-split")
        self.throttled = self.averaged("produce-throttle-time")


class ConsumerMetrics(Metrics):
    """What a consumer measures: its fetches, what it hands out, and its group."""

    def __init__(self) -> None:
        super().__init__()
        self.fetch_latency = self.averaged("fetch-latency")
        self.fetch_size = self.averaged("fetch-size")
        self._readings |= {
            "fetch-rate": lambda: self.fetch_latency.count_rate,
            "fetch-total": lambda: self.fetch_latency.total_count,
        }
        self.throttled = self.averaged("fetch-throttle-time")
        self.consumed = self.counted("records-consumed")
        self.bytes_consumed = self.counted("bytes-consumed")
        self.gauge("records-per-request-avg", self._records_per_fetch)
        self.commit_latency = self.averaged("commit-latency")
        self._readings |= {
            "commit-rate": lambda: self.commit_latency.count_rate,
            "commit-total": lambda: self.commit_latency.total_count,
        }
        self.rebalance_latency = self.averaged("rebalance-latency")
        self._readings |= {
            "rebalance-total": lambda: self.rebalance_latency.total_count,
            "rebalance-latency-total": lambda: self.rebalance_latency.total,
        }
        self.heartbeat = self.counted("heartbeat")

    def _records_per_fetch(self) -> float:
        fetches = self.fetch_latency.count_rate
        return self.consumed.rate / fetches if fetches else 0.0
