"""`tidelog consume`: where it starts, where it ends, and what it prints."""

import signal
import subprocess
import sys

import pytest


@pytest.fixture
def numbers(cli, topic):
    """A topic with 0 to 9."""
    cli("produce", topic, stdin=b"".join(b"%d\n" % each for each in range(10))).ok()
    return topic


def test_only_what_is_shown_is_counted(cli, numbers):
    ran = cli("consume", numbers, "--from-beginning", "--where", "value~[5-9]", "-n", 2)
    assert ran.ok().lines == ["5", "6"]


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ([], 0),
        (["--from-beginning"], 0),
        (["--offset", "7"], 7),
        (["--offset", "-3"], 7),
        (["--offset", "beginning"], 0),
        (["--offset", "end", "--exit"], 10),
        (["--since", "1h"], 0),
        (["--since", "now"], 10),
        (["--partition", "0"], 0),
    ],
)
def test_where_it_starts(cli, numbers, options, first):
    assert cli("consume", numbers, *options).ok().lines == [str(each) for each in range(first, 10)]


def test_how_many(cli, numbers):
    assert cli("consume", numbers, "--from-beginning", "-n", 3).ok().lines == ["0", "1", "2"]
    ran = cli("consume", "--topic", numbers, "--from-beginning", "--max-messages", 1)
    assert ran.ok().lines == ["0"]
    assert cli("consume", numbers, "-o", 9, "-n", 5, "--timeout-ms", 300).ok().lines == ["9"]


def test_so_many_are_those_that_are_there(cli, numbers, unique):
    """Waiting at the end for others to write is not what `-n 1` asks for."""
    assert cli("consume", numbers, "-n", 2).ok().lines == ["0", "1"]
    assert cli("consume", numbers, "-n", 2, "-g", unique("group")).ok().lines == ["0", "1"]


def test_an_offset_past_the_end_is_told(cli, numbers):
    ran = cli("consume", numbers, "-o", 99)
    assert (ran.code, ran.out) == (2, "")
    assert f"--offset 99: {numbers}-0 ends at 10; `-o end` waits for what comes" in ran.err


def test_who_has_seen_enough_is_no_failure(broker, cli, topic):
    cli("produce", topic, stdin=b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 20_000).ok()
    command = f"{sys.executable} -m tidelog consume {topic} -b {broker.bootstrap}"
    ran = subprocess.run(
        ["bash", "-c", f"({command}; echo $? >&2) | head -n 1"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert (ran.stdout, ran.stderr) == ("x" * 99 + "\n", "0\n")


def test_until(cli, numbers):
    assert cli("consume", numbers, "--until", "1h").ok().out == ""


def test_a_group_goes_on_where_it_was(cli, numbers, unique):
    group = unique("group")
    assert cli("consume", numbers, "-g", group, "-n", 4, "--from-beginning").ok().lines[-1] == "3"
    assert cli("consume", numbers, "-g", group).ok().lines[0] == "4"
    assert cli("consume", numbers, "-g", group).ok().lines == []
    assert cli("consume", numbers, "-g", group, "-o", 3).code == 2


def test_formats(cli, topic):
    cli("produce", topic, "-k", "a", "-H", "h=1", "--timestamp", 1000, stdin=b"x\n").ok()
    shown = cli("consume", topic, "--format", r"%t %p %o %k %K %v %V %T %d %h 100%%\x21\n").ok()
    assert shown.out == f"{topic} 0 0 a 1 x 1 1000 1970-01-01T00:00:01.000Z h=1 100%!\n"
    assert cli("consume", topic, "--property", "print.key=true").ok().out == "a\tx\n"
    assert cli("consume", topic, "--format", "%q").code == 2


def test_what_is_not_there(cli, topic):
    ran = cli("consume", "not-there")
    assert ran.code == 1
    assert "not-there" in ran.err
    assert cli("consume", topic, "--partition", 3).code == 2
    assert cli("consume", topic, "--since", "yesterdayish").code == 2
    assert cli("consume", topic, "--offset", "here").code == 2


# As from a terminal: who starts the tests in the background has them ignore SIGINT, and children inherit that.
INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("tidelog", run_name="__main__")
"""


def test_ctrl_c_is_quiet(broker, numbers):
    command = [sys.executable, "-c", INTERRUPTIBLE, "consume", numbers, "-b", broker.bootstrap]
    child = subprocess.Popen(
        [*command, "--follow", "--from-beginning"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        assert child.stderr is not None
        for _ in range(10):
            child.stdout.readline()
        child.send_signal(signal.SIGINT)
        try:
            assert child.wait(20) == 130
        finally:
            child.kill()
        assert child.stderr.read() == b""
