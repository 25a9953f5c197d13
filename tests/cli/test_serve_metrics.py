"""`tidelog serve --metrics`, `--log-format json`: where the pages are by default, and what a log line is."""

import json
import re
import socket
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from scraping import page

from tidelog.broker.settings import BrokerSettings
from tidelog.cli._supervisor import plans
from tidelog.cli.main import parser_for
from tidelog.cli.serve import _metrics_socket, settings_from
from tidelog.errors import SettingsError
from tidelog.testing.local_broker import LocalBroker


def chosen(*arguments: str) -> BrokerSettings:
    return settings_from(parser_for("serve").parse_args(arguments))


def free_port() -> int:
    """One with another free one 312 above it."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            try:
                other.bind(("127.0.0.1", port + 312))
            except (OSError, OverflowError):
                continue
            return port


def test_beside_the_brokers_port_unless_told():
    port = free_port()
    found = _metrics_socket(chosen("--port", str(port)), None)
    assert found is not None
    with found:
        assert found.getsockname() == ("127.0.0.1", port + 312)


def test_a_place_that_is_taken_is_done_without(caplog):
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 312))
        taken.listen()
        assert _metrics_socket(chosen("--port", str(port)), None) is None
    assert f"metrics are not served: port {port + 312}" in caplog.text
    assert "--metrics HOST:PORT" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (["--port", "0"], None),
        (["--port", "9092", "--metrics", "off"], "off"),
        (["--port", "9092", "--metrics", "127.0.0.1:7000"], "127.0.0.1:7000"),
        (["--port", "9092", "-X", "metrics.listener=127.0.0.1:7000"], None),
        (["--port", "65500"], None),
    ],
)
def test_no_default_where_something_was_said(arguments, given):
    assert _metrics_socket(chosen(*arguments), given) is None


def test_the_option_is_the_setting():
    assert chosen("--metrics", "0.0.0.0:7000").monitoring.listener == "0.0.0.0:7000"
    off = ("-X", "metrics.listener=0.0.0.0:7000", "--metrics", "off")
    assert chosen(*off).monitoring.listener == ""
    with pytest.raises(SettingsError, match="somewhere"):
        chosen("--metrics", "somewhere")


def test_several_brokers_take_consecutive_ports():
    settings = chosen("--metrics", "127.0.0.1:7000", "--port", "9092")
    told = [each.settings["metrics.listener"] for each in plans(settings, 3)]
    assert told == ["127.0.0.1:7000", "127.0.0.1:7001", "127.0.0.1:7002"]
    assert "metrics.listener" not in plans(chosen("--port", "9092"), 2)[1].settings


def test_a_broker_serves_its_pages_and_logs_objects():
    arguments = ["--metrics", "127.0.0.1:0", "--log-format", "json", "--broker-id", "7"]
    with LocalBroker(arguments=arguments) as broker:
        deadline = time.monotonic() + 60
        while "/metrics" not in broker.log():
            assert time.monotonic() < deadline, broker.log()
            time.sleep(0.02)
        where = re.search(r"http://(\S+)/metrics", broker.log())
        assert where is not None
        assert page(where[1], "/readyz") == (200, "ready\n")
        status, text = page(where[1], "/metrics")
        assert status == 200
        assert 'tidelog_broker_info{broker="7"' in text
        assert broker.stop() == 0
        objects = [json.loads(line) for line in broker.log().splitlines() if line.startswith("{")]
    assert any(each["message"].startswith("stopped: every record") for each in objects)
    assert all(each["broker"] == 7 and each["level"] in ("info", "warning") for each in objects)
