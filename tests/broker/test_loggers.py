"""Levels of loggers, and the log as JSON."""

import json
import logging
import sys

import pytest

from tidelog.broker import loggers
from tidelog.cli._json_logs import JsonFormatter
from tidelog.errors import InvalidConfig, InvalidRequest


@pytest.fixture(autouse=True)
def as_before():
    ours = [logging.getLogger(), *map(logging.getLogger, ("tidelog", "tidelog.test.level"))]
    before = [(each, each.level) for each in ours]
    yield
    for each, level in before:
        each.setLevel(level)


def test_a_level_holds_for_what_is_below():
    loggers.change({"tidelog": "WARN"})
    below = logging.getLogger("tidelog.test.level")
    assert not below.isEnabledFor(logging.INFO)
    assert loggers.levels()["tidelog.test.level"] == "WARN"
    loggers.change({"tidelog.test.level": "debug"})
    assert below.isEnabledFor(logging.DEBUG)
    assert loggers.levels()["tidelog"] == "WARN"
    assert loggers.synonyms("tidelog.test.level")[:2] == [
        ("tidelog.test.level", "DEBUG"),
        ("tidelog", "WARN"),
    ]
    loggers.change({"tidelog.test.level": None})
    assert not below.isEnabledFor(logging.INFO)
    loggers.change({"root": "FATAL", "tidelog": None})
    assert loggers.levels()["tidelog"] == "FATAL"


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"kafka.server": "INFO"}, InvalidConfig, "there is no logger kafka.server"),
        ({"tidelogs": "INFO"}, InvalidConfig, "there is no logger"),
        ({"tidelog": "LOUD"}, InvalidConfig, "LOUD is not a level"),
        ({"root": None}, InvalidRequest, "root"),
    ],
)
def test_what_cannot_be_set_changes_nothing(changes, error, words):
    before = loggers.levels()
    with pytest.raises(error, match=words):
        loggers.change({"tidelog.test.level": "ERROR", **changes})
    assert loggers.levels() == before


def test_json_is_one_object_a_line():
    formatter = JsonFormatter(broker=3)
    record = logging.LogRecord("tidelog.x", logging.WARNING, "f", 1, 'a "%s"\nß', ("b",), None)
    text = formatter.format(record)
    assert "\n" not in text
    told = json.loads(text)
    assert told["message"] == 'a "b"\nß'
    assert (told["level"], told["logger"], told["broker"]) == ("warning", "tidelog.x", 3)
    assert told["time"].endswith("+00:00")
    try:
        raise ValueError("why")
    except ValueError:
        record = logging.LogRecord("tidelog", logging.ERROR, "f", 1, "m", (), sys.exc_info())
    assert "ValueError: why" in json.loads(formatter.format(record))["exception"]
