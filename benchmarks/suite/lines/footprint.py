"""What a system costs before anybody uses it: the start to the first acknowledged message, memory, and memory of connections."""

import subprocess
import time

from suite.drivers.build import jms_classes, program, run, run_command
from suite.lines.task import Task
from suite.systems.base import KAFKA, System
from suite.wire import answers, first_message

NAME = "footprint"
TITLE = "Start and memory"
_SETTLE_S = 2.0


def suits(system: System) -> bool:
    return True


def run_line(task: Task) -> None:
    """Called first, right after the start."""
    system = task.system
    began = time.monotonic()
    _first_message(system)
    figures = {"ready_ms": system.ready_s * 1000}
    figures["first_ack_ms"] = (system.ready_s + time.monotonic() - began) * 1000
    figures["start_cpu_s"] = system.cpu_s()
    time.sleep(_SETTLE_S)
    figures["idle_mb"] = system.memory_mb()
    task.note("fresh", figures)
    connections = task.scale.connections
    if system.protocol == KAFKA and connections:
        before = system.memory_mb()
        command = [program("raw"), "idle", "127.0.0.1", system.port, "-", 1, connections, 1, 1, 30]
        with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE) as holding:
            assert holding.stdout is not None
            holding.stdout.readline()
            answers(system.port)  # it was accepted after all the others
            more = system.memory_mb() - before
            holding.terminate()
        task.note(f"{connections} idle connections", {"more_mb": more})


def _first_message(system: System) -> None:
    where = {"host": "127.0.0.1", "port": system.port, "count": 1, "size": 1}
    match system.protocol:
        case "amqp":
            run("amqp", "produce", **where, queue="first", confirms=1)
        case "nats":
            run("nats", "produce", **where, stream="first", acks=1)
        case "openwire":  # the time of its client's own start is in it
            url = f"tcp://127.0.0.1:{system.port}"
            java = ["java", "-Xmx512m", "-cp", jms_classes(), "Jms"]
            run_command([*java, "produce", url, "first", "1", "1", "false"])
        case _:
            first_message(system.port)


def after(task: Task) -> None:
    """Called last: memory after everything that was done."""
    task.note("after the whole round", {"memory_mb": task.system.memory_mb()})
