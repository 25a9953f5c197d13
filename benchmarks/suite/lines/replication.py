"""Three brokers of tidelog on this machine: what three replicas cost, beside one (`benchmarks/replication.py` has more)."""

from contextlib import ExitStack

from suite.lines.task import Task
from suite.systems.base import System

NAME = "replication"
TITLE = "Three replicas"
RUNS = ("tiny, pipelined", "64 KB")


def suits(system: System) -> bool:
    return system.name == "tidelog"


def run_line(task: Task) -> None:
    if not task.scale.thorough:
        return
    import replication as parts  # it stands beside the suite

    for name in RUNS:
        for factor in (1, 3):
            with ExitStack() as stack:
                brokers = parts.cluster(stack)
                parts.create(parts.Wire(brokers[0].port), "t", parts.BROKERS[:factor])
                found = parts.measured(brokers, "t", name, task.scale.seconds, -1)
            found.pop("errors", None)
            found["cpu_us_per_request"] = found.pop("cpu_us")
            task.note(f"{name}, acks=all, factor {factor}", found)
