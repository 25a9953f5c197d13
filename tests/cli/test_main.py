"""Exit codes, help and what a user sees when something goes wrong."""

import os
import subprocess
import sys

import pytest

from tidelog.cli.main import command_names
from tidelog.errors import SettingsError, StartError, TidelogError
from tidelog.testing.local_broker import LocalBroker


@pytest.mark.parametrize("command", command_names())
def test_every_command_has_help_with_an_example(tidelog, command):
    ran = tidelog(command, "--help")
    assert ran.code == 0
    assert "example" in ran.out


def test_wrong_use_is_two(tidelog):
    assert tidelog("topic").code == 2
    assert tidelog("topic", "create").code == 2
    assert tidelog("nonsense").code == 2


def test_no_broker_is_one_line_that_names_the_address(tidelog):
    ran = tidelog("topic", "list", "-b", "127.0.0.1:1")
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "127.0.0.1:1" in ran.err


def test_a_misspelt_setting_is_wrong_use_and_names_the_right_one(tidelog):
    ran = tidelog("topic", "list", "-X", "client.idd=x")
    assert ran.code == 2
    assert "client.id is" in ran.err


def test_a_reader_that_has_seen_enough_ends_it_quietly(broker: LocalBroker, cli, topic):
    cli("produce", topic, stdin=b"".join(b"%d\n" % each for each in range(200_000))).ok()
    command = [sys.executable, "-m", "tidelog", "consume", topic, "-b", broker.bootstrap]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
    )
    with child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == b"0\n"
        child.stdout.close()
        assert child.stderr.read() == b""


def test_an_unimported_client_keeps_serve_quick():
    code = (
        "import sys, tidelog.cli.main, tidelog.cli.serve;"
        "print([m for m in sys.modules if m.startswith('tidelog.client')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_may_stand_on_both_sides_of_an_option(cli, unique):
    first, second, third = unique("a"), unique("b"), unique("c")
    ran = cli("topic", "create", first, "-p", 2, second, "-c", "retention.ms=5", third).ok()
    assert ran.lines == [f"Created topic {each}." for each in (first, second, third)]
    ran = cli("topic", "delete", first, "--if-exists", second, third).ok()
    assert len(ran.lines) == 3
    assert cli("topic", "delete", first, "--if-exist", second).code == 2


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (None, 0, ""),
        (TidelogError("no such luck"), 1, "tidelog: no such luck\n"),
        (OSError(2, "No such file", "a"), 1, "tidelog: [Errno 2] No such file: 'a'\n"),
        (SettingsError("--to x: write y"), 2, "tidelog: --to x: write y\n"),
        (StartError("choose another port"), 2, "tidelog: choose another port\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_exit_codes(tidelog, monkeypatch, raised, code, said):
    def run(arguments):
        if raised is not None:
            raise raised
        return 0

    monkeypatch.setattr("tidelog.cli.cluster.run", run)
    ran = tidelog("cluster", "info")
    assert (ran.code, ran.err) == (code, said)


def test_an_action_that_is_not_there_is_guessed(tidelog):
    ran = tidelog("topic", "lst")
    assert (ran.code, ran.err) == (
        2,
        "tidelog: lst is not an action of tidelog topic (did you mean list?); see tidelog topic --help\n",
    )
    assert "there are create, list, " in tidelog("topic", "xyzzy").err
