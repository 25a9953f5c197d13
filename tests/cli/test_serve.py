"""The command line: which settings come out of it, and what is told."""

import argparse
import signal
from pathlib import Path

import pytest

from tidelog.broker.broker import Broker
from tidelog.broker.settings import BrokerSettings
from tidelog.cli import serve
from tidelog.cli.main import command_names, main


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


WRONG = [
    ([], "tidelog: say what to do: acl, audit, cluster, "),
    (["sevre"], "sevre is not a command of tidelog (did you mean serve?)"),
    (["--verzion"], "--verzion is not an option of tidelog (did you mean --version?)"),
    (["serve", "--prot", "1"], "--prot is not an option of tidelog serve (did you mean --port?)"),
    (["serve", "more"], "more is not an option of tidelog serve"),
    (["serve", "--port"], "--port: expected one argument"),
    (["serve", "--port", "x"], "x is not a port (0 to 65535)"),
    (["serve", "--port", "65536"], "65536 is not a port"),
    (["serve", "--log-level", "loud"], "loud"),
    (["serve", "--broker-id", "-1"], "-1 is not a broker's id"),
    (["serve", "--brokers", "0"], "0 is not a number of brokers (1 to 100)"),
    (["serve", "--brokers", "3", "--port", "65534"], "--brokers needs port 65536"),
    (["serve", "--metastore", "etcd://x"], "metastore 'etcd://x': expected sqlite:PATH"),
    (["serve", "--metastore", "zk:x"], "expected two slashes"),
    (["serve", "--listen", "9092"], "such as PLAINTEXT://host:9092"),
    (["serve", "--advertise", "here"], "advertised.listeners='PLAINTEXT://here' must be"),
    (["serve", "-X", "num.partitions"], "-X num.partitions must be written as name=value"),
    (["serve", "--config", "absent.properties"], "absent.properties cannot be read: No such file"),
    (["serve", "--config", "."], ". cannot be read: Is a directory"),
    (["serve", "--config", "latin.properties"], "latin.properties is not UTF-8 (byte 5)"),
    (["serve", "--port", "0", "--data", "file"], "the data directory file cannot be made"),
    (["serve", "--port", "0", "--data", "/dev/null/x"], "/dev/null/x cannot be made"),
    (["serve", "--port", "0", "--data", ""], "log.dirs names no directory"),
    (["serve", "--port", "0", "--ready-file", "absent/ready"], "absent/ready cannot be written"),
]


@pytest.mark.parametrize(("arguments", "told"), WRONG, ids=[" ".join(each) for each, _ in WRONG])
def test_what_is_wrong_is_one_line_and_code_2(
    arguments: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "latin.properties").write_bytes(b"name=\xe9")
    kept = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert main(arguments) == 2
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("tidelog: ")
    assert told in lines[0]


def test_all_that_is_wrong_is_told_at_once(capsys: pytest.CaptureFixture[str]):
    bad = ["-X", "num.partitions=many", "-X", "nosuch=1", "-X", "log.segment.byte=1", "-X", "half"]
    assert main(["serve", *bad, "--listen", "9092"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    for each in (
        "num.partitions='many' must be a whole number",
        "nosuch is not a setting",
        "log.segment.byte is not a setting (did you mean log.segment.bytes?)",
        "-X half must be",
    ):
        assert each in told[0]


def test_a_wrong_address_is_told_with_the_rest(capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "-X", "nosuch=1", "--listen", "9092"]) == 2
    told = capsys.readouterr().err
    assert "nosuch" in told
    assert "PLAINTEXT://9092" in told


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["--version"]])
def test_help_fits_on_a_screen(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    told = capsys.readouterr()
    assert 0 < len(told.out.splitlines()) < 40
    assert told.err == ""


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
    assert f"tidelog produce hello -b {broker.addresses[0]}" in text
    assert f"tidelog consume hello -b {broker.addresses[0]} --from-beginning" in text


@pytest.mark.parametrize(("mode", "told"), [(0o644, True), (0o600, False)])
def test_a_file_with_passwords_that_others_can_read(tmp_path: Path, caplog, mode: int, told: bool):
    file = tmp_path / "server.properties"
    file.write_text("sasl.plain.users=admin:hush-hush\nssl.keystore.key=key.pem\n")
    file.chmod(mode)
    serve._warn_of_readers(file)
    assert ("sasl.plain.users; chmod 600" in caplog.text) is told
    assert "hush-hush" not in caplog.text
