"""Run our own clients' tests against Apache Kafka: `make compat-kafka`.

Kafka's jars come with Maven on first use and stay in `.peers/`.  A real broker in KRaft mode is started in a temporary
directory, the tests of `tests/client` that need a broker run against it, and it is stopped.  Where the jars cannot be had,
this says why and succeeds: nothing was found wrong.  Arguments go to pytest, in place of `tests/client`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "compat"))

from apache_kafka import VERSION, ApacheKafka  # noqa: E402  (it stands with the tests)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="apache-kafka-") as directory:
        try:
            kafka = ApacheKafka(Path(directory))
        except pytest.skip.Exception as reason:
            print(f"SKIPPED: {reason}")
            return 0
        with kafka.running():
            print(f"Apache Kafka {VERSION} at {kafka.bootstrap}", flush=True)
            chosen = sys.argv[1:] or ["tests/client"]
            command = [sys.executable, "-m", "pytest", "-q", *chosen]
            environment = os.environ | {"TIDELOG_COMPAT_BOOTSTRAP": kafka.bootstrap}
            return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
