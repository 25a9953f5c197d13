"""The front door: everything that there is is named, and what is shown works as it stands."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tidelog.cli.main import command_names
from tidelog.testing.fixture import Tidelog

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)


def block(word: str, language: str = "python") -> str:
    (found,) = (text for kind, text in BLOCKS if kind == language and word in text)
    return str(found)


def test_every_extra_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert [name for name in extras if f"`{name}`" not in README] == []
    everything = ",".join(name for name in extras if name != "all")
    assert extras["all"] == [f"tidelog[{everything}]"]


def test_every_command_is_named() -> None:
    named = README.partition("Commands: ")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`(?:tidelog )?([a-z]+)`", named)) == command_names()


def test_every_page_of_the_guide_is_linked() -> None:
    pages = {f"docs/guide/{path.name}" for path in (ROOT / "docs" / "guide").glob("*.md")}
    pages |= {"docs/benchmarks.md", "docs/reliability.md"}
    pages |= {f"docs/reference/{path.name}" for path in (ROOT / "docs" / "reference").glob("*.md")}
    linked = set(re.findall(r"\]\(([^)#]+)", README))
    assert sorted(pages - linked - {"docs/guide/README.md"}) == []


def test_its_targets_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    wanted = set(re.findall(r"\bmake ([a-z-]+)", README)) - {"measures"}
    assert [name for name in wanted if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_blocks_are_short() -> None:
    longest = max(text.count("\n") for kind, text in BLOCKS)
    assert longest <= 10, "a reader has half a minute"


def test_the_commands_work(tidelog: Tidelog) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", block("tidelog produce test", "sh")],
        env={**os.environ, "PATH": path, "TIDELOG_BOOTSTRAP": tidelog.bootstrap},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "This is a message"


def run(text: str, bootstrap: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(text.replace("127.0.0.1:9092", bootstrap), names)
    return names


def test_the_clients_work(
    tidelog: Tidelog, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(block("confluent_kafka"), tidelog.bootstrap)
    assert [each.value for each in tidelog.messages("orders", 1)] == [b"order 1"]
    endless = block("from tidelog import Consumer")
    ending = re.sub(r"^( +)(print\(message.*)$", r"\1\2\n\1if message.value == b'order 2': break", endless, flags=re.MULTILINE)  # fmt: skip
    assert ending != endless
    run(ending, tidelog.bootstrap)
    assert "b'customer-2' b'order 2'" in capfd.readouterr().out
    monkeypatch.setenv("TIDELOG_BOOTSTRAP", tidelog.bootstrap)
    orders = run(block("import duckdb"), tidelog.bootstrap)["orders"]
    assert orders.num_rows == 2


def test_the_test_works(tidelog: Tidelog) -> None:
    from tidelog import Producer

    def greet(bootstrap: str, topic: str) -> None:
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send(topic, b"hello")

    names = run(block("def test_greeting"), tidelog.bootstrap)
    names["greet"] = greet
    names["test_greeting"](tidelog)
