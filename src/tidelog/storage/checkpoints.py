"""Kafka's small text files: offset checkpoints, leader epochs, meta.properties, partition.metadata.

    recovery-point-offset-checkpoint, log-start-offset-checkpoint, replication-offset-checkpoint:
        0                   version
        2                   number of entries
        orders 0 4711       topic, partition, offset
        orders 1 815

    leader-epoch-checkpoint: the same with "epoch start_offset" lines.

Each is replaced as a whole, so a crash leaves the old file or the new one.
"""

import base64
import os
import uuid
from collections.abc import Iterable, Mapping

from tidelog.names import TopicPartition
from tidelog.storage.files import Files

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"

_VERSION = 0


class MalformedCheckpoint(Exception):
    """The file is not what its name says."""


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """Offsets by partition; empty when there is no file."""
    offsets = {}
    for words in _read_lines(files, path, 3):
        offsets[TopicPartition(words[0], _whole(path, words[1]))] = _whole(path, words[2])
    return offsets


def write_offsets(
    files: Files, path: str, offsets: Mapping[TopicPartition, int], *, sync: bool = True
) -> None:
    lines = (f"{each.topic} {each.partition} {offset}" for each, offset in offsets.items())
    _write_lines(files, path, lines, len(offsets), sync=sync)


def read_epochs(files: Files, path: str) -> list[tuple[int, int]]:
    """(epoch, start offset) in order; empty when there is no file."""
    return [(_whole(path, w[0]), _whole(path, w[1])) for w in _read_lines(files, path, 2)]


def write_epochs(
    files: Files, path: str, epochs: list[tuple[int, int]], *, sync: bool = True
) -> None:
    _write_lines(
        files, path, (f"{epoch} {start}" for epoch, start in epochs), len(epochs), sync=sync
    )


def read_topic_id(files: Files, directory: str) -> uuid.UUID | None:
    """The topic id of a partition's directory, if it was written."""
    path = os.path.join(directory, PARTITION_METADATA)
    try:
        text = files.read(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise MalformedCheckpoint(f"{path} is not text") from None
    values = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(values["topic_id"] + "=="))
    except (KeyError, ValueError):
        raise MalformedCheckpoint(f"{path} names no topic id") from None


def write_topic_id(files: Files, directory: str, topic_id: uuid.UUID) -> str:
    """Write it without a sync; the path of the file, which is to be synced before it counts."""
    path = os.path.join(directory, PARTITION_METADATA)
    text = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
    content = f"version: {_VERSION}\ntopic_id: {text}\n"
    files.replace(path, content.encode(), sync=False)
    return path


def read_properties(files: Files, path: str) -> dict[str, str]:
    """`name=value` lines; empty when there is no file."""
    try:
        text = files.read(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return {}
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def write_properties(files: Files, path: str, properties: Mapping[str, str]) -> None:
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    files.replace(path, text.encode())


def _read_lines(files: Files, path: str, words: int) -> list[list[str]]:
    try:
        text = files.read(path).decode("utf-8")
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise MalformedCheckpoint(f"{path} is not text") from None
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] != str(_VERSION):
        raise MalformedCheckpoint(f"{path} is not a checkpoint of version {_VERSION}")
    entries = [line.split(" ") for line in lines[2:] if line]
    if str(len(entries)) != lines[1] or any(len(each) != words for each in entries):
        raise MalformedCheckpoint(f"{path} does not hold the {lines[1]} entries it announces")
    return entries


def _write_lines(files: Files, path: str, lines: Iterable[str], count: int, *, sync: bool) -> None:
    text = "\n".join([str(_VERSION), str(count), *lines, ""])
    files.replace(path, text.encode(), sync=sync)


def _whole(path: str, word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise MalformedCheckpoint(f"{path}: {word!r} is not a number") from None
