"""`tidelog serve --brokers 3`: one command, and what becomes of its brokers."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.client.admin import Admin

pytestmark = pytest.mark.faults

PATIENCE_S = 120.0


class Supervised:
    """The supervisor and what it has printed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ready = directory / "ready"
        self.output = directory / "output"
        command = [sys.executable, "-m", "tidelog", "serve", "--brokers", "3", "--port", "0"]
        command += ["--data", str(directory / "data"), "--ready-file", str(self.ready)]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        until(lambda: self.ready.exists() and "broker 2" in self.printed)

    @property
    def printed(self) -> str:
        return self.output.read_text()

    @property
    def bootstrap(self) -> str:
        return ",".join(self.ready.read_text().split())

    @property
    def children(self) -> list[int]:
        """Those that were there at the start."""
        return [int(pid) for pid in re.findall(r"broker \d+ .*\(pid (\d+)\)", self.printed)]


def until(hope: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not hope():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    made = Supervised(tmp_path)
    try:
        yield made
        assert "Traceback" not in made.printed, made.printed
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.process.wait()
        until(lambda: not any(map(is_running, made.children)))


def test_a_killed_broker_is_started_again(supervised: Supervised) -> None:
    with Admin(bootstrap_servers=supervised.bootstrap) as admin:
        admin.create_topics({"orders": 3}, replication_factor=3)
        ports = {each.id: each.port for each in admin.describe_cluster().brokers}
        os.kill(supervised.children[1], signal.SIGKILL)
        until(lambda: "broker 1 has ended (signal SIGKILL)" in supervised.printed)

        def is_back() -> bool:
            now = {each.id: each.port for each in admin.describe_cluster().brokers}
            topic = admin.describe_topics(["orders"])["orders"]
            in_sync = all(len(each.isr) == 3 for each in topic.partitions)
            return in_sync and now.get(1) not in (None, ports[1])

        until(is_back)
    supervised.process.send_signal(signal.SIGTERM)
    assert supervised.process.wait(PATIENCE_S) == 0
    assert supervised.printed.count("stopped: every record is on the disk") == 3
    assert not any(map(is_running, supervised.children))


def test_brokers_end_with_a_supervisor_that_was_killed(supervised: Supervised) -> None:
    supervised.process.kill()
    supervised.process.wait()
    until(lambda: not any(map(is_running, supervised.children)))
    again = Supervised(supervised.directory)  # and nothing is in its way
    again.process.send_signal(signal.SIGINT)
    assert again.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--data", "file"], "cannot be made"),
        (["--data", "data", "--ready-file", "absent/ready"], "absent/ready cannot be written"),
    ],
)
def test_what_cannot_be_is_told_and_ends(tmp_path: Path, options: list[str], told: str) -> None:
    (tmp_path / "file").write_text("a file")
    command = [sys.executable, "-m", "tidelog", "serve", "--brokers", "2", "--port", "0"]
    done = subprocess.run(
        [*command, *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
