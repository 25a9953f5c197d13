"""Kafka's JSON files of replicas: which topics to move, and who is to hold which partition.

{"topics": [{"topic": "orders"}], "version": 1}
{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidelog.errors import SettingsError
from tidelog.names import TopicPartition

Assignment = dict[TopicPartition, tuple[int, ...]]


def read_topics(path: str) -> list[str]:
    """The topics that a file names; `SettingsError` says in one line what is wrong with it."""
    rows = _rows(path, "topics")
    return [_field(path, "topics", number, row, "topic", str) for number, row in enumerate(rows)]


def read_assignment(path: str) -> Assignment:
    """Who is to hold which partition; `SettingsError` says in one line what is wrong with the file."""
    found: Assignment = {}
    for number, row in enumerate(_rows(path, "partitions")):
        topic = _field(path, "partitions", number, row, "topic", str)
        index = _field(path, "partitions", number, row, "partition", int)
        replicas = _field(path, "partitions", number, row, "replicas", list)
        if not replicas or not all(type(each) is int for each in replicas):
            raise SettingsError(f"{path}: replicas of {topic}-{index} must be ids of brokers")
        where = TopicPartition(topic, index)
        if where in found:
            raise SettingsError(f"{path}: {topic}-{index} is there twice")
        found[where] = tuple(replicas)
    if not found:
        raise SettingsError(f"{path} names no partition")
    return found


def as_json(assignment: Mapping[TopicPartition, Sequence[int]]) -> str:
    """One line, as Kafka's tools write and read it."""
    rows = [
        {
            "topic": topic,
            "partition": index,
            "replicas": list(replicas),
            "log_dirs": ["any"] * len(replicas),
        }
        for (topic, index), replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))


def _rows(path: str, name: str) -> list[Any]:
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise SettingsError(
            f"{path} is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from None
    except RecursionError:
        raise SettingsError(f"{path} is nested too deeply") from None
    if not isinstance(data, dict) or not isinstance(data.get(name), list):
        raise SettingsError(f'{path} must hold an object with a list "{name}"')
    if data.get("version", 1) != 1:
        raise SettingsError(f"{path} has version {data['version']}; only 1 is known")
    rows: list[Any] = data[name]
    return rows


def _field(path: str, of: str, number: int, row: Any, name: str, kind: type) -> Any:
    value = row.get(name) if isinstance(row, dict) else None
    # A bool is an int in Python, and not in JSON.
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = {str: "a text", int: "a number", list: "a list"}[kind]
        raise SettingsError(f'{path}: {of}[{number}] needs "{name}", {wanted}')
    return value
