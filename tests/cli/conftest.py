"""A broker for the commands, and a way to call them without a process each."""

import contextlib
import io
import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidelog.cli.main import main
from tidelog.testing.local_broker import LocalBroker

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def ok(self) -> "Ran":
        """Itself, if it has done what it should."""
        assert self.code == 0, self.err
        return self


Call = Callable[..., Ran]


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(settings=SETTINGS) as made:
        yield made
        assert "Traceback" not in made.log(), made.log()


@pytest.fixture
def tidelog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """`tidelog("topic", "list", stdin=b"…")`: call a command in this process."""

    def call(*words: object, stdin: bytes = b"") -> Ran:
        given = tmp_path / "stdin"
        given.write_bytes(stdin)
        out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        err = io.StringIO()
        with given.open() as source, monkeypatch.context() as patched:
            patched.setattr("sys.stdin", source)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = main([str(word) for word in words])
                except SystemExit as exit:
                    code = int(exit.code or 0)
        buffer = out.buffer
        assert isinstance(buffer, io.BytesIO)
        return Ran(code, buffer.getvalue().decode(), err.getvalue())

    return call


@pytest.fixture
def cli(broker: LocalBroker, tidelog: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The same, with a broker to talk to."""
    monkeypatch.setenv("TIDELOG_BOOTSTRAP", broker.bootstrap)
    return tidelog


_numbers = itertools.count()


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Names that no other test uses."""
    return lambda word: f"{word}-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(cli: Call, unique: Callable[[str], str]) -> str:
    """A fresh topic with one partition."""
    name = unique("topic")
    assert cli("topic", "create", name, "-p", 1).code == 0
    return name
