"""What was measured: samples, the run that they belong to, and the files in `benchmarks/results`.

A sample is one run of one case on one system in one round; its figures are by name (`messages_per_s`, `p99_ms`).
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results"


@dataclass(frozen=True, slots=True)
class Sample:
    line: str
    case: str
    system: str
    round: int
    figures: dict[str, float]
    timeline: list[list[float]] = field(default_factory=list)
    """The course of the run: MB so far, messages a second since the point before."""


@dataclass(slots=True)
class Run:
    """A whole run of the suite: on what, of what, how, and everything that was measured."""

    began: str
    scale: dict[str, Any]
    machine: dict[str, str]
    systems: dict[str, dict[str, str]]
    """Name → version and settings."""
    missing: dict[str, str]
    """What could not be measured, and why."""
    facts: dict[str, float] = field(default_factory=dict)
    """What was found once and holds for all rounds."""
    samples: list[Sample] = field(default_factory=list)

    def of(self, line: str) -> list[Sample]:
        return [each for each in self.samples if each.line == line]

    def values(self, line: str, case: str, system: str, figure: str) -> dict[int, float]:
        """The figure by round."""
        return {
            each.round: each.figures[figure]
            for each in self.samples
            if (each.line, each.case, each.system) == (line, case, system)
            and figure in each.figures
        }

    def save(self, path: Path) -> None:
        """Written whole, so that a run that is broken off leaves what it had."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        content = asdict(self)
        samples = ",\n  ".join(json.dumps(each) for each in content.pop("samples"))
        head = json.dumps(content, indent=1).rstrip().removesuffix("}").rstrip()
        beside.write_text(f'{head},\n "samples": [\n  {samples}\n ]\n}}\n')
        beside.replace(path)


def load(path: Path) -> Run:
    content = json.loads(path.read_text())
    samples = [Sample(**each) for each in content.pop("samples")]
    return Run(**content, samples=samples)
