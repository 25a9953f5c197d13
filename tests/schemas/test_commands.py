"""`tidelog registry` and `tidelog serve --registry` where something is missing or wrong: one line, and no more."""

import logging

import pytest

from tidelog.broker.settings import BrokerSettings
from tidelog.cli import _beside as beside
from tidelog.cli import registry as command
from tidelog.cli.main import main, parser_for
from tidelog.errors import StartError


@pytest.mark.parametrize("listen", ["nonsense", "host:", "host:99999", "host:x"])
def test_an_address_that_is_none(capsys, listen):
    assert main(["registry", "--listen", listen]) == 2
    assert f"--listen {listen}: write it as HOST:PORT" in capsys.readouterr().err


def test_addresses():
    assert command.address("--listen", "h:1") == ("h", 1)
    assert command.address("--listen", ":0") == ("127.0.0.1", 0)
    assert command.address("--listen", "[::1]:8081") == ("::1", 8081)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    with pytest.raises(StartError, match=r"needs uvicorn: pip install 'tidelog\[schemas\]'"):
        command.require_extra()


async def test_a_broker_without_the_extra_goes_on(caplog):
    registry = beside.Companion("schema registry", "schemas", ("no_such_package", "logging"), ())
    with caplog.at_level(logging.WARNING):
        async with beside.running_beside([registry]):
            pass
    assert [each.message for each in caplog.records] == [
        "no schema registry: it needs no_such_package (pip install 'tidelog[schemas]')"
    ]


def test_a_broker_that_was_asked_for_none_starts_none():
    arguments = parser_for("serve").parse_args([])
    assert beside.companions(arguments, "127.0.0.1:1", BrokerSettings.load({})) == []
