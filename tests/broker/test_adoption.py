"""Taking over what Kafka wrote: topics from directories, settings and producer ids from its metadata log."""

from pathlib import Path
from uuid import UUID

import pytest

from tidelog.broker.adoption import adopt, metadata_of_kafka
from tidelog.broker.kafka_metadata import (
    KafkaConfigRecord,
    KafkaProducerIdsRecord,
    KafkaRemoveTopicRecord,
    KafkaTopicRecord,
    read_kafka_metadata,
)
from tidelog.cluster.image import Broker, Image
from tidelog.cluster.metadata import (
    ConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from tidelog.errors import StartError
from tidelog.kernel import write_uvarint
from tidelog.names import TopicPartition
from tidelog.protocol.codec import encode_into
from tidelog.protocol.schema import Message
from tidelog.records.batch import parse_header
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.log import Log
from tidelog.testing.manual_clock import ManualClock

TYPES = {KafkaTopicRecord: 2, KafkaConfigRecord: 4, KafkaRemoveTopicRecord: 9, KafkaProducerIdsRecord: 15}  # fmt: skip
ORDERS, NEW = UUID(int=1), UUID(int=99)


def framed(kind: int, message: Message | None) -> bytes:
    value = bytearray()
    for each in (1, kind, 0):
        write_uvarint(value, each)
    if message is not None:
        encode_into(message, 0, value)
    return bytes(value)


def batch(base_offset: int, *messages: Message) -> bytes:
    rows = [(0, None, framed(TYPES[type(each)], each), ()) for each in messages]
    return bytes(build_batch(rows, base_offset=base_offset, codec=Codec.NONE))


def config(topic: str, name: str, value: str | None, kind: int = 2) -> KafkaConfigRecord:
    return KafkaConfigRecord(resource_type=kind, resource_name=topic, name=name, value=value)


def metadata_log(place: Path, name: str, *batches: bytes) -> Path:
    directory = place / "__cluster_metadata-0"
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(b"".join(batches))
    return directory


def log_of(place: Path, topic: str, partition: int, *, producer_id: int = -1) -> Log:
    log = Log.open(
        str(place / f"{topic}-{partition}"),
        files=LocalFiles(),
        config=LogConfig(),
        clock=ManualClock(),
        topic_partition=TopicPartition(topic, partition),
    )
    log.topic_id = ORDERS if topic == "orders" else None
    sequence = 0 if producer_id >= 0 else -1
    data = build_batch(
        [(log.clock.now_ms(), b"k", b"v", ())],
        producer_id=producer_id,
        producer_epoch=sequence,
        base_sequence=sequence,
    )
    log.append_as_leader(data, leader_epoch=5, header=parse_header(data))
    return log


def test_settings_are_those_of_the_last_record(tmp_path: Path) -> None:
    directory = metadata_log(
        tmp_path,
        f"{0:020d}.log",
        batch(0, KafkaTopicRecord(name="orders", topic_id=ORDERS)),
        batch(1, config("orders", "retention.ms", "1"), config("gone", "retention.ms", "2")),
        batch(3, config("orders", "retention.ms", "-1"), config("1", "log.retention.ms", "9", 4)),
        batch(5, config("gone", "retention.ms", None), KafkaProducerIdsRecord(next_producer_id=3000)),
    )  # fmt: skip
    found = read_kafka_metadata(LocalFiles(), str(directory))
    assert found is not None
    assert {name: each for name, each in found.configs.items() if each} == {
        "orders": {"retention.ms": "-1"}
    }
    assert found.next_producer_id == 3000


def test_a_removed_topic_takes_its_settings_along(tmp_path: Path) -> None:
    directory = metadata_log(
        tmp_path,
        f"{0:020d}.log",
        batch(0, KafkaTopicRecord(name="orders", topic_id=ORDERS), config("orders", "retention.ms", "1")),
        batch(2, KafkaRemoveTopicRecord(topic_id=ORDERS)),
    )  # fmt: skip
    found = read_kafka_metadata(LocalFiles(), str(directory))
    assert found is not None
    assert found.configs == {}


def test_a_snapshot_stands_for_the_records_before_it(tmp_path: Path) -> None:
    metadata_log(tmp_path, f"{0:020d}.log", batch(0, config("orders", "retention.ms", "1")), batch(1, config("orders", "segment.ms", "2")))  # fmt: skip
    directory = metadata_log(tmp_path, f"{1:020d}-{1:010d}.checkpoint", batch(0, config("orders", "retention.ms", "5")))  # fmt: skip
    found = read_kafka_metadata(LocalFiles(), str(directory))
    assert found is not None
    assert found.configs == {"orders": {"retention.ms": "5", "segment.ms": "2"}}


def test_unknown_records_and_a_torn_end_are_passed_over(tmp_path: Path) -> None:
    unknown = bytes(build_batch([(0, None, framed(77, None), ())]))
    known = batch(1, config("orders", "retention.ms", "1"))
    directory = metadata_log(tmp_path, f"{0:020d}.log", unknown, known, known[:80])
    found = read_kafka_metadata(LocalFiles(), str(directory))
    assert found is not None
    assert found.configs == {"orders": {"retention.ms": "1"}}


def test_unreadable_metadata_stops_the_start(tmp_path: Path) -> None:
    metadata_log(tmp_path, f"{0:020d}.log", bytes(200))
    with pytest.raises(StartError, match=r"move .* away"):
        metadata_of_kafka(LocalFiles(), [str(tmp_path)])
    assert metadata_of_kafka(LocalFiles(), [str(tmp_path / "elsewhere")]) is None


def test_topics_are_made_of_the_directories(tmp_path: Path) -> None:
    metadata_log(tmp_path, f"{0:020d}.log", batch(0, config("orders", "retention.ms", "-1"), config("orders", "remote.storage.enable", "true")))  # fmt: skip
    logs = [log_of(tmp_path, "orders", 1, producer_id=4000), log_of(tmp_path, "table", 0)]
    records = adopt(
        Image(),
        logs,
        0,
        lambda: NEW,
        lambda topic: {},
        lambda: metadata_of_kafka(LocalFiles(), [str(tmp_path)]),
    )
    assert TopicRecord("orders", ORDERS) in records
    assert TopicRecord("table", NEW) in records
    assert PartitionRecord(ORDERS, 1, (0,), (0,), 0, 6) in records
    assert [each for each in records if isinstance(each, ConfigRecord)] == [
        ConfigRecord("topic", "orders", "retention.ms", "-1")
    ]
    # No new producer may be taken for one that the logs remember.
    (ids,) = (each for each in records if isinstance(each, ProducerIdsRecord))
    assert ids.next_producer_id > 4000


def test_an_empty_directory_gives_nothing(tmp_path: Path) -> None:
    assert adopt(Image(), [], 0, lambda: NEW, lambda topic: {}) == []


def test_a_deleted_topic_does_not_come_back(tmp_path: Path) -> None:
    """The only topic was deleted, and the broker was killed before its directory was renamed."""
    log = Log.open(
        str(tmp_path / "orders-0"),
        files=LocalFiles(),
        config=LogConfig(),
        clock=ManualClock(),
        topic_partition=TopicPartition("orders", 0),
    )
    image = Image(brokers={0: Broker(0, 1, (), None)})
    assert adopt(image, [log], 0, lambda: NEW, lambda topic: {}) == []
    assert adopt(Image(), [log], 0, lambda: NEW, lambda topic: {}) != []
