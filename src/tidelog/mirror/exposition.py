"""A mirror's metrics as Prometheus reads them, on an address of their own.

    with Exposition(mirror, "127.0.0.1", 9464):
        await mirror.run()

Needs the extra [metrics].  Prometheus' client library serves and writes; what it asks is answered on the mirror's own loop.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Self

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.registry import Collector

from tidelog.mirror.mirror import Mirror

_ANSWER_S = 10.0

# Name, help, and what of `LaneStatus.metrics` it is.
_COUNTERS = (
    ("records", "Records passed on", "records"),
    ("bytes", "Bytes of the batches passed on", "bytes"),
    ("batches", "Batches passed on", "batches"),
    ("rebuilt_batches", "Batches that had to be built anew", "rebuilt_batches"),
    ("commits", "Commits of positions at the target", "commits"),
    ("errors", "Failures; each is tried again", "errors"),
)
_OF_PARTITIONS = (
    ("lag", "Source offsets that are still to be passed on", "lag"),
    ("lag_seconds", "Age of the last record passed on, if there are more", "lag_seconds"),
    ("position", "Source offset up to which everything was passed on", "position"),
)
_SIDES = ("source", "target")


class Exposition(Collector):
    """Serves `/metrics` while it is entered; made on the loop that the mirror runs on."""

    def __init__(self, mirror: Mirror, host: str, port: int) -> None:
        self._mirror = mirror
        self._loop = asyncio.get_running_loop()
        registry = CollectorRegistry()
        registry.register(self)
        self._server, self._thread = start_http_server(port, host, registry)

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def describe(self) -> Iterable[Metric]:
        return ()  # so that nothing is collected when it is registered

    def collect(self) -> Iterator[Metric]:
        """Called in the server's thread."""
        found = asyncio.run_coroutine_threadsafe(self._metrics(), self._loop).result(_ANSWER_S)
        for name, help, key in _COUNTERS:
            metric = Metric(f"tidelog_mirror_{name}", help, "counter")
            for source, each in found.items():
                metric.add_sample(f"tidelog_mirror_{name}_total", {"source": source}, each[key])
            yield metric
        down = Metric("tidelog_mirror_down", "1 while a side cannot be reached", "gauge")
        for source, each in found.items():
            for side in _SIDES:
                labels = {"source": source, "side": side}
                down.add_sample("tidelog_mirror_down", labels, float(side in each["down"]))
        yield down
        for name, help, key in _OF_PARTITIONS:
            metric = Metric(f"tidelog_mirror_{name}", help, "gauge")
            for source, each in found.items():
                for place, values in each["partitions"].items():
                    topic, _, partition = place.rpartition("-")
                    labels = {"source": source, "topic": topic, "partition": partition}
                    metric.add_sample(f"tidelog_mirror_{name}", labels, values[key])
            yield metric

    async def _metrics(self) -> dict[str, Any]:
        return self._mirror.metrics()
