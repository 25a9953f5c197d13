"""Apache Kafka itself, as a peer: a broker in a child process, and the tool that reads segment files.

    kafka = ApacheKafka(directory)          formatted on first use, its data in `directory/data`
    with kafka.running():
        Producer({"bootstrap.servers": kafka.bootstrap})
    dump([path, ...], "--deep-iteration")   what DumpLogSegments prints

The jars come with Maven on first use and stay in `.peers/`; without Maven and Java the test is skipped.
TIDELOG_COMPAT_KAFKA names another version than the one that the tests are made for.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

VERSION = os.environ.get("TIDELOG_COMPAT_KAFKA", "4.1.0")
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
NODE_ID = 1

_POM = Path(__file__).parent / "apache"
_PEERS = Path(__file__).parents[2] / ".peers" / "java"
_POLL_S = 0.05
_START_S = 60.0
_STOP_S = 30.0

_PROPERTIES = """
process.roles=broker,controller
node.id={node_id}
controller.quorum.voters={node_id}@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
log.dirs={data}
log.segment.bytes=1048576
log.cleaner.enable=false
group.initial.rebalance.delay.ms=0
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=100
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def jars() -> Path:
    """A folder with Kafka's jars; skips the test where they cannot be had."""
    if not all(shutil.which(each) for each in ("mvn", "java")):
        pytest.skip("Maven or Java is not installed, so Apache Kafka cannot be fetched")
    place = _PEERS / f"apache-{VERSION}"
    if not (place / "complete").exists():
        goal = "dependency:copy-dependencies"
        options = [f"-Dkafka.version={VERSION}", f"-DoutputDirectory={place}"]
        fetch = ["mvn", "-q", "-B", goal, "-DincludeScope=runtime", *options]
        done = subprocess.run(fetch, cwd=_POM, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = [line for line in done.stdout.splitlines() if "ERROR" in line] or [
                "no reason given"
            ]
            pytest.skip(f"Maven could not fetch Apache Kafka {VERSION}: {lines[0][:300]}")
        (place / "complete").touch()
    return place


def java(main: str, *arguments: str) -> list[str]:
    """The command that runs a class of Kafka's with little memory and a quick start."""
    sparing = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    warnings = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", *sparing, warnings, "-cp", f"{jars()}/*", main, *arguments]


def dump(paths: Sequence[Path], *options: str) -> str:
    """Everything that DumpLogSegments says of the files; it must succeed."""
    files = ",".join(str(each) for each in paths)
    command = java("kafka.tools.DumpLogSegments", "--files", files, *options)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


class ApacheKafka:
    """A broker that is its own controller."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.port, controller = _free_port(), _free_port()
        self._properties = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(
            _PROPERTIES.format(
                node_id=NODE_ID, port=self.port, controller=controller, data=self.data
            )
        )
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(self._properties))
        subprocess.run(java("kafka.tools.StorageTool", *arguments), check=True, capture_output=True)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def log(self) -> str:
        """Warnings and errors of the broker, over all its starts."""
        return (self.directory / "kafka.log").read_text()

    def complaints(self, topic: str) -> list[str]:
        """What it said about the files of a topic."""
        return re.findall(rf".*\b{topic}-\d.*", self.log())

    @contextlib.contextmanager
    def running(self, *, kill: bool = False) -> Iterator[None]:
        """Runs for the time of the block, then is stopped in good order or killed."""
        with open(self.directory / "kafka.log", "ab") as output:
            process = subprocess.Popen(
                java("kafka.Kafka", str(self._properties)), stdout=output, stderr=output
            )
        try:
            self._wait_until_ready(process)
            yield
            process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            process.wait(_STOP_S)
        finally:
            process.kill()
            process.wait()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            assert process.poll() is None, self.log()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(_POLL_S)
        raise AssertionError(f"Apache Kafka did not start:\n{self.log()}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])
