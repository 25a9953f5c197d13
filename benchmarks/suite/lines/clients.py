"""Python's clients side by side on one broker: `benchmarks/clients.py` has them, and more sizes and codecs."""

import argparse

from suite.lines.task import Task
from suite.systems.base import System

NAME = "clients"
TITLE = "Python clients"


def suits(system: System) -> bool:
    return system.name == "tidelog"


def run_line(task: Task) -> None:
    if not task.scale.client_seconds:
        return
    import clients as parts  # it stands beside the suite

    options = argparse.Namespace(rounds=1, seconds=task.scale.client_seconds, only="")
    for size in parts.SIZES:
        for codec in parts.CODECS if task.scale.thorough else ("none",):
            if size != parts.SIZES[0] and not task.scale.thorough:
                continue
            found = parts.measure(task.system.bootstrap, size, codec, options)
            for name, (rate, cost_us) in found.items():
                figures = {"messages_per_s": rate, "client_cpu_us": cost_us}
                task.note(f"{name}, {size} B, {codec}", figures)
