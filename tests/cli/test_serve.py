"""The command line: which settings come out of it, and what is told."""

import argparse
from pathlib import Path

import pytest

from tidelog.broker.broker import Broker
from tidelog.broker.settings import BrokerSettings
from tidelog.cli import serve
from tidelog.cli.main import command_names, main
from tidelog.errors import SettingsError, StartError


def settings(*arguments: str) -> BrokerSettings:
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return serve.settings_from(parser.parse_args(arguments))


def listening(*arguments: str) -> list[tuple[str, int]]:
    return [(each.host, each.port) for each in settings(*arguments).listeners()]


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ((), [("127.0.0.1", 9092)]),
        (("--port", "0"), [("127.0.0.1", 0)]),
        (("--host", "0.0.0.0"), [("0.0.0.0", 9092)]),
        (("--host", "h", "--port", "7"), [("h", 7)]),
        (("--listen", "a:1", "--listen", "b:2"), [("a", 1), ("b", 2)]),
        (("--listen", "[::1]:1"), [("::1", 1)]),
        (("--listen", ":1"), [("", 1)]),
        (("-X", "listeners=PLAINTEXT://x:5"), [("x", 5)]),
        (("-X", "listeners=PLAINTEXT://x:5", "--port", "6"), [("127.0.0.1", 6)]),
    ],
)
def test_where_it_listens(arguments: tuple[str, ...], where: list[tuple[str, int]]):
    assert listening(*arguments) == where


def test_options_are_stronger_than_x_and_x_than_the_file(tmp_path: Path):
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/file\nnum.partitions=2\nlog.retention.ms=5\n")
    found = settings("--config", str(file), "-X", "num.partitions=3", "--data", "/option")
    assert found.broker.log_dirs == ("/option",)
    assert found.broker.num_partitions == 3
    assert found.log.retention_ms == 5


def test_log_dir_of_a_file_is_kept(tmp_path: Path):
    file = tmp_path / "server.properties"
    file.write_text("log.dir=/file\n")
    assert settings("--config", str(file)).broker.log_dirs == ("/file",)
    assert settings().broker.log_dirs == ("data",)


def test_what_is_wrong_on_the_line(tmp_path: Path):
    with pytest.raises(SettingsError, match="name=value"):
        settings("-X", "num.partitions")
    with pytest.raises(SettingsError, match="PLAINTEXT://host:9092"):
        settings("--listen", "9092")
    with pytest.raises(StartError, match=r"absent\.properties"):
        settings("--config", str(tmp_path / "absent.properties"))


def test_a_bad_setting_is_one_line_and_code_2(capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "-X", "num.partitions=many", "-X", "nosuch=1"]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert "num.partitions='many'" in told[0]
    assert "nosuch" in told[0]


def test_commands_are_found_by_their_files():
    assert "serve" in command_names()
    assert "main" not in command_names()


async def test_the_banner_fits_on_a_screen(tmp_path: Path):
    given = settings("--port", "0", "--data", str(tmp_path), "-X", "num.io.threads=3")
    broker = Broker(given)
    await broker.start()
    try:
        text = serve.banner(broker, given)
    finally:
        await broker.stop()
    assert text.startswith(f"tidelog is ready on 127.0.0.1:{broker.addresses[0].port} ")
    assert str(tmp_path) in text
    assert "num.io.threads" in text
    assert len(text.splitlines()) < 20
