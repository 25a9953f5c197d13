"""What stops a start: one line that says what and what to do, and exit code 2."""

import contextlib
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.broker.metastores import METADATA_FILE
from tidelog.testing.local_broker import BrokerDidNotStart, LocalBroker

pytestmark = pytest.mark.faults


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidelog", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def refused(*arguments: str) -> str:
    done = serve(*arguments)
    text = done.stdout + done.stderr
    assert done.returncode == 2, text
    assert "Traceback" not in text
    return text


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        # Without metrics: their port would be one that nobody has asked for, and may be somebody else's, too.
        where = ["--listen", f"127.0.0.1:{port}", "--metrics", "off"]
        text = refused(*where, "--data", str(tmp_path))
    assert len(text.strip().splitlines()) == 1, text
    assert str(port) in text
    assert "in use" in text


def test_a_second_broker_on_the_same_data(broker: LocalBroker) -> None:
    broker.start()
    text = refused("--listen", "127.0.0.1:0", "--data", str(broker.data))
    assert len(text.strip().splitlines()) == 1, text
    assert str(broker.data) in text


def test_a_data_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    text = refused("--listen", "127.0.0.1:0", "--data", str(tmp_path / "file" / "data"))
    assert len(text.strip().splitlines()) == 1, text
    assert str(tmp_path / "file") in text


def test_all_bad_settings_are_told_at_once(tmp_path: Path) -> None:
    text = refused(
        *("--listen", "127.0.0.1:0", "--data", str(tmp_path)),
        *("-X", "num.partitions=many"),
        *("-X", "log.segment.bytes=-5"),
        *("-X", "log.cleanup.policy=burn"),
    )
    for name, value in {
        "num.partitions": "many",
        "log.segment.bytes": "-5",
        "log.cleanup.policy": "burn",
    }.items():
        assert name in text
        assert value in text


def test_a_file_of_settings(tmp_path: Path, broker: LocalBroker) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("# ours\nnum.partitions=7\nlog.retention.hours = 12\n")
    broker.arguments = ["--config", str(properties)]
    broker.start()
    assert broker.stop() == 0


def test_a_missing_file_of_settings(tmp_path: Path) -> None:
    text = refused("--config", str(tmp_path / "absent.properties"), "--data", str(tmp_path / "d"))
    assert "absent.properties" in text


def test_a_broker_that_cannot_read_the_metadata_ends_and_says_what_to_do(
    broker: LocalBroker,
) -> None:
    """A newer tidelog wrote something; with its session it would be a zombie."""
    broker.start()
    with contextlib.closing(sqlite3.connect(broker.data / METADATA_FILE)) as database, database:
        (end,) = database.execute("SELECT max(idx) FROM entry").fetchone()
        database.execute("INSERT INTO entry VALUES (?, ?)", (end + 1, b'[["novelty",{}]]'))
    assert broker.process is not None
    assert broker.process.wait(120) == 1
    assert "metadata cannot go on: the metadata log was written by a newer tidelog" in broker.log()
    with pytest.raises(BrokerDidNotStart, match=r"'novelty' is not known .*: update this broker"):
        broker.start()
