"""A real Spark cluster from the wheel alone: a master and two workers as processes; and a Spark Connect server.

with StandaloneCluster(directory) as cluster:
    session("job", cluster.master)
with ConnectServer(directory) as server:
    session("job", server.address)
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import pyspark

_HOME = Path(pyspark.__file__).parent
_SPARING = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PATIENCE_S = 240.0

CONF = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": _SPARING,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": _SPARING,
}


def environment(**more: str) -> dict[str, str]:
    """That of a process of Spark's: our Python on both sides."""
    given = {"SPARK_HOME": str(_HOME), "PYSPARK_PYTHON": sys.executable, **more}
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1", **given}


class JavaProcess:
    """A class of Spark's that runs until it is ended, with all that it has started."""

    def __init__(self, log: Path, *command: str, memory: str = "256m") -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [str(_HOME / "bin" / "spark-class"), *command],
                stdout=output,
                stderr=output,
                env=environment(SPARK_DAEMON_MEMORY=memory, SPARK_DAEMON_JAVA_OPTS=_SPARING),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, pattern: str) -> str:
        """What stands in its output."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            text = self._log.read_text(errors="replace")
            if found := re.search(pattern, text):
                return found.group(1)
            assert self._process.poll() is None, text[-3000:]
            time.sleep(0.1)
        raise TimeoutError(f"no {pattern} in {text[-3000:]}")

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class StandaloneCluster:
    """A master and its workers, each with a core."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self._directory = directory
        self._count = workers
        self._stack = ExitStack()
        self.master = ""
        self._workers: list[JavaProcess] = []

    def __enter__(self) -> Self:
        name = "org.apache.spark.deploy.master.Master"
        where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = JavaProcess(self._directory / "master.log", name, *where)
        self._stack.callback(master.end)
        self.master = master.wait_for(r"Starting Spark master at (spark://\S+)")
        for number in range(self._count):
            name = "org.apache.spark.deploy.worker.Worker"
            work = str(self._directory / f"work-{number}")
            room = ("--cores", "1", "--memory", "600m", "--work-dir", work)
            log = self._directory / f"worker-{number}.log"
            worker = JavaProcess(log, name, "--host", "127.0.0.1", *where[4:], *room, self.master)
            self._stack.callback(worker.end)
            self._workers.append(worker)
        for worker in self._workers:
            worker.wait_for(r"(Successfully registered with master)")
        return self

    def __exit__(self, *_: object) -> None:
        # What the workers have started, they have put into process groups of their own, perhaps.
        below = [pid for worker in self._workers for pid in descendants(worker.pid)]
        self._stack.close()
        for pid in below:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def executors(self) -> list[int]:
        """The processes that run tasks for a driver, by pid."""
        return [pid for pid in self._below() if "CoarseGrainedExecutorBackend" in command_of(pid)]

    def python_workers(self) -> list[int]:
        """The Python processes of executors."""
        names = ("pyspark.daemon", "pyspark.worker")
        return [pid for pid in self._below() if any(name in command_of(pid) for name in names)]

    def _below(self) -> Iterator[int]:
        for worker in self._workers:
            yield from descendants(worker.pid)


class ConnectServer:
    """A Spark Connect server whose tasks run in itself."""

    def __init__(self, directory: Path, master: str = "local[2]") -> None:
        self._directory = directory
        self._master = master

    def __enter__(self) -> Self:
        conf = {**CONF, "spark.connect.grpc.binding.port": "0", "spark.log.level": "INFO"}
        conf["spark.connect.grpc.binding.address"] = "127.0.0.1"
        name = "org.apache.spark.sql.connect.service.SparkConnectServer"
        self._process = JavaProcess(
            self._directory / "connect.log",
            *("org.apache.spark.deploy.SparkSubmit", "--class", name, "--master", self._master),
            *(word for key, value in conf.items() for word in ("--conf", f"{key}={value}")),
            "spark-internal",
            memory="640m",
        )
        try:
            port = self._process.wait_for(r"Spark Connect server started at: \S*?:(\d+)")
        except BaseException:
            self._process.end()
            raise
        self.address = f"sc://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        below = descendants(self._process.pid)
        self._process.end()
        for pid in below:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """All processes below one, nearest first."""
    parents = _parents()
    found, mine = [], {pid}
    while more := {each for each, parent in parents.items() if parent in mine} - mine:
        mine |= more
        found += sorted(more)
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _parents() -> Mapping[int, int]:
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
    return found
