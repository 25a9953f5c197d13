"""What a line is given: the system, the scale, and where samples go."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from suite.drivers.build import program, run, run_command
from suite.samples import Sample
from suite.scales import Scale
from suite.systems.base import System
from suite.wire import create

LEAST_GIGABYTES = 0.001
"""Less tells nothing about the cost of a GB."""

_numbers = itertools.count()


@dataclass(slots=True)
class Task:
    system: System
    scale: Scale
    round: int
    facts: dict[str, float]
    keep: Callable[[Sample], None]
    line: str = field(default="")

    def note(self, case: str, found: dict[str, Any]) -> None:
        """Keep what was found for a case."""
        timeline = found.pop("timeline", [])
        figures = {name: float(value) for name, value in found.items()}
        self.keep(Sample(self.line, case, self.system.name, self.round, figures, timeline))

    def topic(self, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """A new topic."""
        name = f"bench-{next(_numbers)}"
        if (
            self.system.name != "librdkafka's mock"
        ):  # which makes its topics when they are asked for
            create(self.system.port, name, partitions, config)
        return name

    def kafka(self, mode: str, **arguments: object) -> dict[str, Any]:
        """Run librdkafka against the system; adds the processor time that it took the system for a GB."""
        with self.system.busy() as used:
            found = run("kafka", mode, bootstrap=self.system.bootstrap, **arguments)
        gigabytes = found.get("mb_per_s", 0) * found.get("seconds", 0) / 1000
        if gigabytes:
            found["cpu_s_per_gb"] = round(used.cpu_s / gigabytes, 3)
        return found

    def raw(self, mode: str, *arguments: object) -> dict[str, Any]:
        """Run the raw load generator: topic, partitions, connections, in flight, bytes, seconds and so on."""
        head = [str(program("raw")), mode, "127.0.0.1", str(self.system.port)]
        with self.system.busy() as used:
            found = run_command([*head, *map(str, arguments)])
        if found.pop("errors"):
            raise RuntimeError(f"{self.system.name} refused requests: {arguments}")
        seconds = float(str(arguments[5]))
        found["cpu_us_per_request"] = round(
            used.cpu_s / max(found["requests_per_s"] * seconds, 1) * 1e6, 2
        )
        gigabytes = found["mb_per_s"] * seconds / 1000
        if gigabytes >= LEAST_GIGABYTES:
            found["cpu_s_per_gb"] = round(used.cpu_s / gigabytes, 3)
        return found
