"""`tidelog completion`: what a shell is told, and that a real one understands it."""

import os
import shutil
import subprocess
import sys

import pytest

from tidelog.cli.completion import candidates
from tidelog.cli.main import command_names


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([""], command_names()),
        (["to"], ["topic"]),
        (["topic", "d"], ["delete", "describe"]),
        (["topic", "describe", "--off"], ["--offsets"]),
        (["group", "seek", "--to-"], ["--to-time", "--to-datetime"]),
        (["produce", "--acks", ""], ["-1", "0", "1", "all"]),
        (["produce", "-z", "z"], ["zstd"]),
        (["produce", "-k", ""], []),
        (["nonsense", ""], []),
        (["completion", ""], ["bash", "fish", "zsh"]),
    ],
)
def test_candidates(words, found):
    assert candidates(words) == sorted(found)


def test_names_come_from_the_cluster(cli, broker, topic, unique):
    assert cli("completion", "words", "consume", topic).ok().lines == [topic]
    assert cli("completion", "words", "consume", "--topic", topic).ok().lines == [topic]
    cli("produce", topic, stdin=b"a\n").ok()
    group = unique("readers")
    cli("consume", topic, "-g", group, "-n", 1, "--from-beginning").ok()
    assert cli("completion", "words", "group", "describe", group).ok().lines == [group]
    words = ("topic", "delete", "-b", broker.bootstrap, topic)
    assert cli("completion", "words", *words).ok().lines == [topic]


def test_a_cluster_that_is_not_there_is_no_error(tidelog, monkeypatch):
    monkeypatch.setenv("TIDELOG_BOOTSTRAP", "127.0.0.1:1")
    ran = tidelog("completion", "words", "consume", "")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


@pytest.fixture
def path(tmp_path):
    """A PATH on which `tidelog` is this one."""
    (tmp_path / "tidelog").write_text(f'#!/bin/sh\nexec {sys.executable} -m tidelog "$@"\n')
    (tmp_path / "tidelog").chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_bash_completes(path):
    script = (
        "source <(tidelog completion bash); "
        'COMP_WORDS=(tidelog topic "add"); COMP_CWORD=2; _tidelog; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], env=path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("add-partitions\n", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_the_script(path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    check = [shell, "--no-execute" if shell == "fish" else "-n"]
    script = subprocess.run(["tidelog", "completion", shell], env=path, capture_output=True)
    done = subprocess.run(check, input=script.stdout, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
