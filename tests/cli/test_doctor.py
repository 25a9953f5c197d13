"""`tidelog doctor`: what it finds on a machine and in a cluster."""

import socket

import pytest

from tidelog.testing.local_broker import LocalBroker


def test_a_healthy_broker(cli, topic, broker):
    ran = cli("doctor", "--data", broker.data, "--json").ok()
    found = {each["subject"]: each for each in ran.json}
    assert found["bootstrap"]["state"] == "ok"
    assert broker.bootstrap in found["broker 0"]["text"]
    assert found["partitions"]["state"] == "ok"
    assert found["doors of 0"]["state"] == "ok"
    assert found["privacy"]["state"] == "ok"
    assert {"disk", "fsync", "files", "kernel"} <= set(found)


def test_lines_for_eyes(tidelog, tmp_path):
    ran = tidelog("doctor", "--offline", "--data", tmp_path).ok()
    assert all(line.split()[0] in ("ok", "warning") for line in ran.lines)
    assert list(tmp_path.glob(".tidelog-doctor-*")) == []


def test_nobody_there(tidelog):
    ran = tidelog("doctor", "-b", "127.0.0.1:1")
    assert ran.code == 1
    assert ran.lines[0].startswith("failed   bootstrap    127.0.0.1:1 cannot be reached")


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_an_advertised_address_that_nobody_can_reach(tidelog, closed_port):
    with LocalBroker(arguments=["--advertise", f"127.0.0.1:{closed_port}"]) as broker:
        ran = tidelog("doctor", "-b", broker.bootstrap, "-X", "default.api.timeout.ms=500")
    assert ran.code == 1
    assert f"127.0.0.1:{closed_port} cannot be reached" in ran.out
    assert "advertised.listeners" in ran.out


def test_a_broker_that_is_open_to_strangers(tidelog, tmp_path):
    """It says so when it is ready, and the doctor says it again; a directory that others may read is told, too."""
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    with LocalBroker(data, arguments=["--listen", "0.0.0.0:0"]) as broker:
        port = broker.bootstrap.rpartition(":")[2]
        ran = tidelog("doctor", "-b", f"127.0.0.1:{port}", "--data", data, "--json").ok()
        broker.stop()  # and has printed all
        assert "  open       PLAINTEXT://0.0.0.0:0 is reached from other machines" in broker.log()
    found = {each["subject"]: each for each in ran.json}
    assert found["doors of 0"]["state"] == "warning"
    assert "asks for no login" in found["doors of 0"]["text"]
    assert found["privacy"]["state"] == "warning"
    assert "chmod" in found["privacy"]["text"]
