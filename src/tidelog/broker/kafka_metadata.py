"""What a KRaft controller of Kafka left in `__cluster_metadata-0`: the settings of topics, and the next producer id.

    found = read_kafka_metadata(files, "/var/lib/kafka/__cluster_metadata-0")
    found.configs["orders"]["retention.ms"]

The directory holds batches like any log, and snapshots (`<end offset>-<epoch>.checkpoint`) of the same form.  A record is

    | frame version uvarint = 1 | type uvarint | version uvarint | message |

Only the types below are read.  Absent: access rules, quotas, broker settings, logins; and ZooKeeper.
"""

import os
from collections.abc import Iterator
from uuid import UUID

from tidelog.errors import CorruptMessage, ProtocolError
from tidelog.kernel import read_uvarint
from tidelog.protocol.codec import decode
from tidelog.protocol.schema import Message, field, int8, int32, int64, string, uuid
from tidelog.records.batch import HEADER_BYTES, BatchHeader, parse_header, read_records
from tidelog.storage.files import Files

CLUSTER_METADATA = "__cluster_metadata"

_FRAME_VERSION = 1
_TOPIC_RESOURCE = 2
_NO_ID = UUID(int=0)


class KafkaTopicRecord(Message, versions="0", flexible="0+"):
    name: string = ""
    topic_id: uuid = _NO_ID


class KafkaConfigRecord(Message, versions="0", flexible="0+"):
    resource_type: int8 = 0
    resource_name: string = ""
    name: string = ""
    value: string | None = field(default="")


class KafkaRemoveTopicRecord(Message, versions="0", flexible="0+"):
    topic_id: uuid = _NO_ID


class KafkaProducerIdsRecord(Message, versions="0", flexible="0+"):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    next_producer_id: int64 = 0


_TYPES: dict[int, type[Message]] = {
    2: KafkaTopicRecord,
    4: KafkaConfigRecord,
    9: KafkaRemoveTopicRecord,
    15: KafkaProducerIdsRecord,
}


class KafkaMetadata:
    """The state that the records lead to."""

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        """The settings that a topic has of its own."""
        self.next_producer_id = 0
        self._names: dict[UUID, str] = {}

    def apply(self, record: Message) -> None:
        if isinstance(record, KafkaTopicRecord):
            self._names[record.topic_id] = record.name
        elif isinstance(record, KafkaRemoveTopicRecord):
            self.configs.pop(self._names.pop(record.topic_id, ""), None)
        elif isinstance(record, KafkaProducerIdsRecord):
            self.next_producer_id = max(self.next_producer_id, record.next_producer_id)
        elif isinstance(record, KafkaConfigRecord) and record.resource_type == _TOPIC_RESOURCE:
            settings = self.configs.setdefault(record.resource_name, {})
            if record.value is None:
                settings.pop(record.name, None)
            else:
                settings[record.name] = record.value


def read_kafka_metadata(files: Files, directory: str) -> KafkaMetadata | None:
    """The newest snapshot and the records behind it; None without such a directory, `ProtocolError` if unreadable."""
    if not files.exists(directory):
        return None
    found = KafkaMetadata()
    names = sorted(files.sizes(directory))
    snapshots = [name for name in names if name.endswith(".checkpoint")]
    known_below = 0
    if snapshots:
        known_below = int(snapshots[-1].split("-", 1)[0])
        _replay(found, files, os.path.join(directory, snapshots[-1]), 0)
    for name in names:
        if name.endswith(".log"):
            _replay(found, files, os.path.join(directory, name), known_below)
    return found


def _replay(found: KafkaMetadata, files: Files, path: str, from_offset: int) -> None:
    for header, batch in _batches(files, path):
        if header.is_control or header.last_offset < from_offset:
            continue
        for record in read_records(batch):
            message = _message(record.value) if record.value and record.offset >= from_offset else None  # fmt: skip
            if message is not None:
                found.apply(message)


def _batches(files: Files, path: str) -> Iterator[tuple[BatchHeader, bytes]]:
    """One at a time: the file may be large.  A batch cut off by a crash ends it."""
    file = files.open(path)
    try:
        position, size = 0, file.size()
        while size - position >= HEADER_BYTES:
            header = parse_header(file.pread(HEADER_BYTES, position))
            if header.size > size - position:
                return
            yield header, file.pread(header.size, position)
            position += header.size
    except CorruptMessage as error:
        raise ProtocolError(f"{path}: {error.message}") from error
    finally:
        file.close()


def _message(value: bytes) -> Message | None:
    """The record in a value; None if it is of no interest here."""
    frame_version, pos = read_uvarint(value, 0)
    if frame_version != _FRAME_VERSION:
        raise ProtocolError(f"a metadata record of frame version {frame_version}")
    kind, pos = read_uvarint(value, pos)
    version, pos = read_uvarint(value, pos)
    made = _TYPES.get(kind)
    if made is None or version not in made.versions:
        return None
    return decode(made, value, pos, version)[0]
