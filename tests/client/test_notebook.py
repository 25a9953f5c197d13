"""The notebook is run as a whole, against a real broker, and its figures are checked against the topic."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import tidelog

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.py"


def test_the_notebook_runs(bootstrap: str, tmp_path: Path, unique: Callable[[str], str]) -> None:
    topic = unique("orders")
    run = subprocess.run(
        [sys.executable, "-W", "error", str(NOTEBOOK)],
        env={
            **os.environ,
            "TIDELOG_BOOTSTRAP": bootstrap,
            "TOPIC": topic,
            "PLOT": str(tmp_path / "orders.png"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "orders.png").read_bytes().startswith(b"\x89PNG")
    everything = tidelog.read(topic, bootstrap=bootstrap)
    found = re.search(r"([\d,]+) orders\n", run.stdout)
    assert found is not None, run.stdout
    recent = int(found[1].replace(",", ""))
    assert 1_500 < recent < everything.num_rows
    assert everything.num_rows > 4_000
    shops = re.findall(r"│ (north|east|south|west)\s+┆ (\d+)", run.stdout)
    assert [shop for shop, _ in shops] == ["east", "north", "south", "west"]
    assert sum(int(count) for _, count in shops) == recent
