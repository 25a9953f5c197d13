"""Reading a topic into Spark, beside Spark's own Kafka connector and a plain loop (`benchmarks/spark.py` has more).

One Spark, `local[2]`, and a broker of tidelog of its own; once, because it takes long.  Processor time is Spark's, the JVM and its Python
workers together.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from suite.lines.task import Task
from suite.systems.base import System

NAME = "spark"
TITLE = "Spark"
_PROGRAM = Path(__file__).parents[2] / "spark.py"
_LONGEST_S = 900


def suits(system: System) -> bool:
    return system.name == "tidelog"


def run_line(task: Task) -> None:
    rows = task.scale.spark_rows
    if task.round or not rows:
        return
    with tempfile.TemporaryDirectory() as directory:
        kept = Path(directory) / "rows.json"
        command = [sys.executable, str(_PROGRAM), "--rows", str(rows), "--sizes", "200"]
        command += ["--codecs", "none", "--json", str(kept)]
        subprocess.run(
            command, check=True, timeout=_LONGEST_S, capture_output=True, text=True, cwd=directory
        )
        for case, figures in json.loads(kept.read_text()).items():
            task.note(case, figures)
