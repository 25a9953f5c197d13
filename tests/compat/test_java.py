"""The Java client, current and previous generation, with small programs of ours (`java/*.java`).

The jars come with Maven on first use and stay in `.peers/`; without Maven and a JDK this is skipped.
"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.compat

SOURCES = Path(__file__).parent / "java"
PEERS = Path(__file__).parents[2] / ".peers" / "java"


def classpath(version: str) -> Path:
    """A folder with the client's jars and the compiled scenario."""
    if not all(shutil.which(each) for each in ("mvn", "java", "javac")):
        pytest.skip("Maven or a JDK is not installed")
    place = PEERS / version
    if not (place / "complete").exists():
        goal = "dependency:copy-dependencies"
        fetch = [
            "mvn",
            "-q",
            "-B",
            goal,
            f"-Dkafka.version={version}",
            f"-DoutputDirectory={place}",
        ]
        done = subprocess.run(fetch, cwd=SOURCES, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"Maven could not fetch kafka-clients {version}: {done.stdout[-300:]}")
        (place / "complete").touch()
    programs = [str(each) for each in sorted(SOURCES.glob("*.java"))]
    compile_ = ["javac", "-cp", f"{place}/*", "-d", str(place), *programs]
    subprocess.run(compile_, check=True, capture_output=True)
    return place


@pytest.mark.parametrize(
    ("version", "group_protocol"),
    [("3.9.1", "classic"), ("4.1.0", "classic"), ("4.1.0", "consumer")],
)
def test_the_java_client(bootstrap: str, version: str, group_protocol: str) -> None:
    place = classpath(version)
    done = subprocess.run(
        ["java", "-cp", f"{place}:{place}/*", "Scenario", bootstrap, group_protocol],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", ["3.9.1", "4.1.0"])
def test_transactions(bootstrap: str, unique: Callable[[str], str], version: str) -> None:
    place = classpath(version)
    done = subprocess.run(
        ["java", "-cp", f"{place}:{place}/*", "Transactions", bootstrap, unique("java")],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
