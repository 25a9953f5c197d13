"""Apache Kafka 4: one node that is broker and controller (KRaft), from its jars, which Maven fetches on first use.

The Java options are those of Kafka's own `kafka-server-start.sh` and `kafka-run-class.sh`; the tuned one has a larger heap,
and as many threads as the machine can use.
"""

import os
import subprocess
import sys
from pathlib import Path

from suite.drivers.build import Missing
from suite.systems.base import KAFKA, System, free_port
from suite.wire import answers

_COMPAT = Path(__file__).resolve().parents[3] / "tests" / "compat"

_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
log.dirs={data}
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
{more}
"""
_JAVA = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
]


class ApacheKafka(System):
    name = "Apache Kafka"
    protocol = KAFKA
    settings = "Kafka's own defaults: heap 1 GB, G1, 3 network and 8 I/O threads"
    heap = ("-Xms1g", "-Xmx1g")
    more = ""

    def check(self) -> None:
        _jars()

    def version(self) -> str:
        done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
        return f"{_compat().VERSION} (KRaft, {done.stderr.splitlines()[0]})"

    def prepare(self) -> None:
        self._properties = self.directory / "server.properties"
        data = self.directory / "data"
        values = {"port": self.port, "controller": free_port(), "data": data, "more": self.more}
        self._properties.write_text(_PROPERTIES.format(**values))
        command = ["format", "-t", _compat().CLUSTER_ID, "-c", str(self._properties)]
        subprocess.run(
            self._java("kafka.tools.StorageTool", *command), check=True, capture_output=True
        )

    def command(self) -> list[str]:
        return self._java("kafka.Kafka", str(self._properties))

    def is_ready(self) -> bool:
        return answers(self.port)

    def _java(self, main: str, *arguments: str) -> list[str]:
        return ["java", *self.heap, *_JAVA, "-cp", f"{_jars()}/*", main, *arguments]


class TunedApacheKafka(ApacheKafka):
    name = "Apache Kafka, tuned"
    settings = "heap 4 GB; as many network and I/O threads as cores"
    heap = ("-Xms4g", "-Xmx4g")
    more = f"num.network.threads={os.cpu_count()}\nnum.io.threads={os.cpu_count()}"


def _jars() -> Path:
    import pytest

    try:
        return Path(_compat().jars())
    except pytest.skip.Exception as reason:
        raise Missing(str(reason)) from None


def _compat():  # type: ignore[no-untyped-def]
    """The module that fetches Kafka for the compatibility tests."""
    if str(_COMPAT) not in sys.path:
        sys.path.append(str(_COMPAT))
    import apache_kafka

    return apache_kafka
