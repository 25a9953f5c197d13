"""`tidelog serve` as a process: what a person sees who starts it twice, and who stops it."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.testing.local_broker import LocalBroker

WITHOUT_UVLOOP = (
    "import sys; sys.modules['uvloop'] = None; from tidelog.cli.main import main; sys.exit(main())"
)


def serve(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run it to its end, which comes at once where it cannot start."""
    return subprocess.run(
        [sys.executable, "-m", "tidelog", "serve", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_port_in_use(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = serve("--port", port, "--data", tmp_path / "data")
    assert found.returncode == 2
    assert found.stderr == (
        f"tidelog: cannot listen on 127.0.0.1:{port}: port {port} is in use; "
        "stop what uses it, or choose another with --port\n"
    )


def test_a_directory_in_use_names_who_uses_it(tmp_path: Path):
    with LocalBroker(tmp_path) as broker:
        found = serve("--port", 0, "--data", broker.data)
        assert found.returncode == 2
        assert len(found.stderr.splitlines()) == 1
        assert f"{broker.data} is in use by another broker (process {broker.pid})" in found.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_directory_that_may_not_be_written(tmp_path: Path):
    tmp_path.chmod(0o500)
    found = serve("--port", 0, "--data", tmp_path / "data")
    assert found.returncode == 2
    assert "cannot be made: Permission denied; choose another with --data" in found.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("program", [["-m", "tidelog"], ["-c", WITHOUT_UVLOOP]])
def test_a_stop_is_one_calm_line(tmp_path: Path, number: signal.Signals, program: list[str]):
    with subprocess.Popen(
        [sys.executable, *program, "serve", "--port", "0", "--data", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("tidelog is ready on ")
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in out + err
    assert len(err.splitlines()) == 1
    assert "stopped: every record is on the disk" in err
