"""Loads on a cluster whose driver, executors and Python processes are killed with -9: every message is in the lake once.

TIDELOG_SPARK_KILLS=20 for as many loads and kills, TIDELOG_LOAD_SEED for others.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from deltalake import DeltaTable
from spark_cluster import CONF, StandaloneCluster, environment

LOADS = int(os.environ.get("TIDELOG_SPARK_KILLS", "2"))
SEED = os.environ.get("TIDELOG_LOAD_SEED", "7")
MESSAGES = 600
"""Of each load."""
_PATIENCE_S = 300.0


class Driver:
    """`tidelog spark load --every …`, started again when it is gone."""

    def __init__(self, log: Path, command: list[str]) -> None:
        self._log = log
        self._command = command
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    def ensure(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self.starts += 1
            with self._log.open("ab") as output:
                self._process = subprocess.Popen(
                    self._command,
                    stdout=output,
                    stderr=output,
                    env=environment(),
                    start_new_session=True,  # with its JVM
                )

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def log(self) -> str:
        return self._log.read_text(errors="replace")


def files(lake: Path) -> int:
    return sum(1 for _ in lake.rglob("*.parquet"))


def wait_until(true: Callable[[], bool], driver: Driver) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, driver.log()[-3000:]
        driver.ensure()
        time.sleep(0.01)


def test_kills_at_random_points_of_loads(
    fill: Callable[..., None],
    cluster: StandaloneCluster,
    bootstrap: str,
    topic: str,
    tmp_path: Path,
) -> None:
    dice = random.Random(SEED)
    lake = tmp_path / "lake"
    load = [sys.executable, "-m", "tidelog", "spark", "load", topic, "--table", str(lake)]
    load += ["-b", bootstrap, "--max-offsets", "150"]
    conf = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
    driver = Driver(
        tmp_path / "driver.log", [*load, "--master", cluster.master, *conf, "--every", "1s"]
    )
    victims = {
        "driver": list,
        "executor": cluster.executors,
        "Python process": cluster.python_workers,
    }
    # Each kind comes equally often, in no order; the first few are the driver and an executor.
    plan = [list(victims)[number % 3] for number in range(LOADS)]
    dice.shuffle(plan)
    killed: list[str] = []
    try:
        for number, victim in enumerate(plan):
            fill(range(number * MESSAGES, (number + 1) * MESSAGES))
            enough = files(lake) + dice.randint(1, 6)
            wait_until(lambda enough=enough: files(lake) >= enough, driver)
            if victim == "driver":
                driver.kill()
                killed.append(victim)
                continue
            for pid in victims[victim]()[:1]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(victim)
        # The cluster finishes by itself what is left.
        count = LOADS * MESSAGES
        wait_until(lambda: lake.is_dir() and rows(lake) >= count, driver)
    finally:
        driver.kill()
    print(f"killed: {', '.join(killed)}; {driver.starts} drivers started; {files(lake)} files")
    assert len(killed) >= LOADS // 2
    # A last one in good order finds nothing to do, or what the last driver had not committed.
    done = subprocess.run([*load, "--master", "none"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    columns = ("partition", "offset", "key", "value")
    table = DeltaTable(str(lake)).to_pyarrow_table(columns=list(columns))
    found = sorted(zip(*(table.column(name).to_pylist() for name in columns), strict=True))
    assert found == sorted((n % 2, n // 2, b"k%d" % n, b"%d" % n) for n in range(count))


def rows(lake: Path) -> int:
    if not DeltaTable.is_deltatable(str(lake)):
        return 0
    return sum(
        DeltaTable(str(lake)).get_add_actions(flatten=True).column("num_records").to_pylist()
    )
