"""A line of the log cannot be forged by a name."""

import logging
import sys

import pytest

from tidelog.cli._logs import LineFormatter


def record(message: str, *args: object, exc_info=None) -> logging.LogRecord:
    return logging.LogRecord("tidelog", logging.INFO, __file__, 1, message, args, exc_info)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\n2026-01-01 INFO a forged line", "a\\n2026-01-01 INFO a forged line"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\rb\x00c\x85d\u2028e", "a\\rb\\x00c\\x85d\\u2028e"),
        ("größe", "größe"),
    ],
)
def test_a_name_stays_within_its_line(name, shown):
    assert LineFormatter("%(message)s").format(record("topic %s", name)) == f"topic {shown}"


def test_a_traceback_keeps_its_lines():
    try:
        raise ValueError("x")
    except ValueError:
        text = LineFormatter("%(message)s").format(record("failed", exc_info=sys.exc_info()))
    assert text.splitlines()[0] == "failed"
    assert text.splitlines()[-1] == "ValueError: x"
