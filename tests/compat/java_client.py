"""The Java client and our small programs for it (`java/*.java`): fetched with Maven on first use, kept in `.peers/`."""

import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent / "java"
PEERS = Path(__file__).parents[2] / ".peers" / "java"


class JavaUnavailable(Exception):
    """There is no JDK, or Maven cannot fetch the client; the message says which."""


def java(version: str) -> list[str]:
    """The command that runs one of our programs with this version of the client; the program's name comes next."""
    place = _classpath(version)
    return ["java", "-cp", f"{place}:{place}/*"]


def _classpath(version: str) -> Path:
    """A folder with the client's jars and the compiled programs."""
    if not all(shutil.which(each) for each in ("mvn", "java", "javac")):
        raise JavaUnavailable("Maven or a JDK is not installed")
    place = PEERS / version
    if not (place / "complete").exists():
        fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies"]
        fetch += [f"-Dkafka.version={version}", f"-DoutputDirectory={place}"]
        done = subprocess.run(fetch, cwd=SOURCES, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise JavaUnavailable(
                f"Maven could not fetch kafka-clients {version}: {done.stdout[-300:]}"
            )
        (place / "complete").touch()
    programs = [str(each) for each in sorted(SOURCES.glob("*.java"))]
    compile_ = ["javac", "-cp", f"{place}/*", "-d", str(place), *programs]
    subprocess.run(compile_, check=True, capture_output=True)
    return place
