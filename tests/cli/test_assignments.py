"""Kafka's JSON files of replicas."""

from pathlib import Path

import pytest

from tidelog.cli._assignments import as_json, read_assignment, read_topics
from tidelog.errors import SettingsError
from tidelog.names import TopicPartition


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


def test_there_and_back(file: Path):
    plan = {TopicPartition("b", 1): (3, 1), TopicPartition("a", 0): (2,)}
    file.write_text(as_json(plan))
    assert read_assignment(str(file)) == plan
    assert as_json(plan).startswith(
        '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[2],"log_dirs":["any"]}'
    )


def test_the_manuals_files(file: Path):
    file.write_text('{"topics": [{"topic": "foo1"}, {"topic": "foo2"}], "version":1}')
    assert read_topics(str(file)) == ["foo1", "foo2"]
    file.write_text('{"version":1,"partitions":[{"topic":"foo","partition":0,"replicas":[5,6,7]}]}')
    assert read_assignment(str(file)) == {TopicPartition("foo", 0): (5, 6, 7)}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not JSON: Expecting value (line 1, column 1)"),
        ("{", "is not JSON"),
        ("[]", 'must hold an object with a list "partitions"'),
        ('{"partitions": {}}', 'must hold an object with a list "partitions"'),
        ('{"version": 2, "partitions": []}', "has version 2; only 1 is known"),
        ('{"partitions": []}', "names no partition"),
        ('{"partitions": [1]}', 'partitions[0] needs "topic", a text'),
        ('{"partitions": [{"topic": "a"}]}', 'partitions[0] needs "partition", a number'),
        (
            '{"partitions": [{"topic": "a", "partition": true, "replicas": [1]}]}',
            'needs "partition"',
        ),
        ('{"partitions": [{"topic": "a", "partition": 0}]}', 'needs "replicas", a list'),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": []}]}',
            "replicas of a-0 must be ids of brokers",
        ),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": ["1"]}]}',
            "replicas of a-0 must be ids of brokers",
        ),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1]},'
            '{"topic": "a", "partition": 0, "replicas": [1]}]}',
            "a-0 is there twice",
        ),
        ("[" * 100_000, "is nested too deeply"),
    ],
)
def test_files_that_cannot_be_used(file: Path, text: str, told: str):
    file.write_text(text)
    with pytest.raises(SettingsError) as error:
        read_assignment(str(file))
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(file: Path):
    with pytest.raises(SettingsError, match="No such file"):
        read_topics(str(file))
    file.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="not UTF-8"):
        read_topics(str(file))
