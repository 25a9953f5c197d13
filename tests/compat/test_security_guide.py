"""The recipes of the guide to security: typed as they stand, on other ports."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog import Producer
from tidelog.cli.main import _parse

pytestmark = pytest.mark.compat

GUIDE = (Path(__file__).parents[2] / "docs/guide/security.md").read_text()
BLOCKS = re.findall(r"## ([^\n]*)\n(?:(?!## ).)*?```sh\n(.*?)```", GUIDE, re.DOTALL)
RECIPES = dict(BLOCKS)


def free_ports(count: int) -> list[int]:
    taken = [socket.socket() for _ in range(count)]
    try:
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]
    finally:
        for each in taken:
            each.close()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Runs in a group of processes of its own, which ends with the test."""
    command = tmp_path / "bin" / "tidelog"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tidelog "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    with (
        (tmp_path / "output").open("w") as output,
        subprocess.Popen(
            ["bash", "-e"],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "TIDELOG_PASSWORD": "wonderland"},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as started,
    ):
        yield started
        os.killpg(started.pid, signal.SIGTERM)


def typed(shell: "subprocess.Popen[str]", recipe: str, directory: Path) -> None:
    """Type it, and wait until the last line was done."""
    done = directory / "done"
    os.mkfifo(done)
    assert shell.stdin is not None
    shell.stdin.write(f"{recipe}\necho yes > done\nwait\n")
    shell.stdin.flush()
    with subprocess.Popen(["cat", str(done)], stdout=subprocess.PIPE, text=True) as reader:
        try:
            out, _ = reader.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            reader.kill()
            out = ""
    assert out == "yes\n", (directory / "output").read_text()


def test_a_single_broker(shell: "subprocess.Popen[str]", tmp_path: Path) -> None:
    (port,) = free_ports(1)
    recipe = RECIPES["A single broker"].replace("9093", str(port))
    assert len(recipe.replace("\\\n", "").splitlines()) <= 10
    typed(shell, recipe, tmp_path)
    alice = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(tmp_path / "cert.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "wonderland",
    }
    with Producer(alice) as producer:
        assert producer.send("orders", b"v").result().offset == 0


def test_a_cluster(shell: "subprocess.Popen[str]", tmp_path: Path) -> None:
    ports = free_ports(3)
    recipe = RECIPES["A cluster"]
    for number, port in enumerate(ports, 1):
        recipe = recipe.replace(f"909{number}", str(port))
    choice = f"$(echo {' '.join(map(str, ports))} | cut -d' ' -f$n)"
    recipe = recipe.replace("909$n", choice)
    assert len(recipe.replace("\\\n", "").splitlines()) <= 10
    typed(shell, recipe, tmp_path)
    admin = {
        "bootstrap.servers": f"127.0.0.1:{ports[0]}",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(tmp_path / "cert.pem"),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "change-me",
    }
    with Producer(admin) as producer:
        assert producer.send("orders", b"v").result().offset == 0


@pytest.mark.parametrize(
    "line", [line for line in RECIPES["Access rules"].splitlines() if line.startswith("tidelog")]
)
def test_what_it_shows_is_understood(line: str) -> None:
    assert callable(_parse(shlex.split(line)[1:]).run)
