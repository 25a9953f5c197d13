"""Spark's own Kafka connector, spark-sql-kafka-0-10, from Maven Central: fetched on first use, kept in `.peers/`.

found = connector()         # paths of jars for `spark.jars`, or the reason why there are none

TIDELOG_SPARK_CONNECTOR names another version than the newest that Central has; "no" does without.
"""

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

VERSION = os.environ.get("TIDELOG_SPARK_CONNECTOR", "4.2.0")

_POM = Path(__file__).parent / "connector"
_PEERS = Path(__file__).parents[2] / ".peers" / "java"
_PATIENCE_S = 240
# The rest of what it depends on is in Spark's own jars.
_NEEDED = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
)


@dataclass(frozen=True)
class Connector:
    """Either the jars are there, or there is a reason."""

    jars: tuple[str, ...] = ()
    reason: str = ""


@functools.cache
def connector() -> Connector:
    """The jars, fetched if need be."""
    if VERSION == "no":
        return Connector(reason="TIDELOG_SPARK_CONNECTOR=no")
    place = _PEERS / f"spark-connector-{VERSION}"
    if not (place / "complete").exists():
        if not all(shutil.which(each) for each in ("mvn", "java")):
            return Connector(reason="Maven or Java is not installed")
        options = [f"-Dconnector.version={VERSION}", f"-DoutputDirectory={place}"]
        options += ["-DincludeScope=runtime", f"-DincludeArtifactIds={','.join(_NEEDED)}"]
        fetch = ["mvn", "-q", "-B", "-s", "settings.xml", "dependency:copy-dependencies", *options]
        try:
            done = subprocess.run(
                fetch, cwd=_POM, capture_output=True, text=True, check=False, timeout=_PATIENCE_S
            )
        except subprocess.TimeoutExpired:
            return Connector(reason=f"Maven did not fetch the connector within {_PATIENCE_S} s")
        if done.returncode != 0:
            lines = [line for line in done.stdout.splitlines() if "ERROR" in line]
            said = lines[0][:300] if lines else "no reason given"
            return Connector(reason=f"Maven could not fetch the connector {VERSION}: {said}")
        (place / "complete").touch()
    return Connector(tuple(sorted(map(str, place.glob("*.jar")))))
