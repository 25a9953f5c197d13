"""The Java client, current and previous generation, with small programs of ours (`java/*.java`).

The jars come with Maven on first use and stay in `.peers/`; without Maven and a JDK this is skipped.
"""

import subprocess
from collections.abc import Callable

import pytest
from java_client import JavaUnavailable, java

pytestmark = pytest.mark.compat


def command(version: str) -> list[str]:
    try:
        return java(version)
    except JavaUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("version", "group_protocol"),
    [("3.9.1", "classic"), ("4.1.0", "classic"), ("4.1.0", "consumer")],
)
def test_the_java_client(bootstrap: str, version: str, group_protocol: str) -> None:
    done = subprocess.run(
        [*command(version), "Scenario", bootstrap, group_protocol],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", ["3.9.1", "4.1.0"])
def test_transactions(bootstrap: str, unique: Callable[[str], str], version: str) -> None:
    done = subprocess.run(
        [*command(version), "Transactions", bootstrap, unique("java")],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
