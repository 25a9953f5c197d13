"""Compiles the drivers with the machine's compilers, when they are older than their source, and runs them.

    found = run("kafka", "produce", bootstrap=..., topic=..., count=100_000)

`Missing` says what a machine lacks; the report repeats it.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[2] / "build"
TIMEOUT_S = 3600.0

ACTIVEMQ = Path("/usr/share/activemq")


class Missing(Exception):
    """Something that the machine does not have; the text is for the report."""


def run(driver: str, mode: str, **arguments: object) -> dict[str, Any]:
    """What the driver printed."""
    command = [str(program(driver)), mode]
    command += [f"{name}={value}" for name, value in arguments.items()]
    return run_command(command)


def run_command(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def program(driver: str) -> Path:
    """The compiled driver."""
    source, target = HERE / f"{driver}.c", BUILD / driver
    newest = max(source.stat().st_mtime, (HERE / "timeline.h").stat().st_mtime)
    if not target.exists() or target.stat().st_mtime < newest:
        BUILD.mkdir(exist_ok=True)
        if shutil.which("cc") is None:
            raise Missing("a C compiler")
        command = ["cc", "-O2", "-Wall", "-o", str(target), str(source), *_libraries(driver)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Missing(f"what {source.name} needs: {done.stderr.splitlines()[-1][:200]}")
    return target


def jms_classes() -> str:
    """The class path of ActiveMQ, its client and our two programs."""
    if not (ACTIVEMQ / "lib").is_dir():
        raise Missing("ActiveMQ (package activemq)")
    if shutil.which("javac") is None:
        raise Missing("a Java compiler")
    jars = f"{ACTIVEMQ}/lib/*:{ACTIVEMQ}/lib/optional/*"
    target, sources = BUILD / "jms", [HERE / "Jms.java", HERE / "ActiveMq.java"]
    classes = [target / f"{each.stem}.class" for each in sources]
    newest = max(each.stat().st_mtime for each in sources)
    if not all(each.exists() and each.stat().st_mtime >= newest for each in classes):
        target.mkdir(parents=True, exist_ok=True)
        command = ["javac", "-cp", jars, "-d", str(target), *map(str, sources)]
        subprocess.run(command, check=True, capture_output=True)
    return f"{target}:{jars}"


def _libraries(driver: str) -> list[str]:
    if driver == "amqp":
        return ["-lrabbitmq"]
    if driver == "kafka":
        return [*_librdkafka(), "-lpthread"]
    return []


def _librdkafka() -> list[str]:
    """The librdkafka that confluent-kafka brings, which is newer than most systems'; else the system's."""
    try:
        import confluent_kafka
    except ImportError:
        return ["-lrdkafka"]
    folder = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    found = sorted(folder.glob("librdkafka*.so*"))
    return [str(found[0]), f"-Wl,-rpath,{folder}"] if found else ["-lrdkafka"]
