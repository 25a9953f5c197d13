"""Files on disk are Kafka's: its tools read ours, we serve its data directories, and it serves our segments.

Apache Kafka itself is the judge (see `apache_kafka.py`).
"""

import random
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from apache_kafka import CLUSTER_ID, NODE_ID, ApacheKafka, dump, jars
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tidelog.clock import SystemClock
from tidelog.names import TopicPartition as Partition
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.log import Log
from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.compat

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PER_CODEC = 300
VALUE_BYTES = 1500  # random, so that no codec makes less than several segments of all
FIRST_TIME_MS = int(time.time() * 1000) - 3_600_000  # producers of long ago are forgotten

SETTINGS = {
    "log.segment.bytes": "1048576",
    "offsets.topic.num.partitions": "4",
    "log.cleaner.backoff.ms": "50",
    "log.retention.ms": "-1",
    "node.id": str(NODE_ID),
}


class Row(NamedTuple):
    """What a consumer must see of a record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


# ---------------------------------------------------------------- (a) Kafka's tool reads our files


@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_kafkas_tool_reads_our_files(tmp_path: Path, ending: str) -> None:
    jars()
    settings = {**SETTINGS, "auto.create.topics.enable": "false"}
    with LocalBroker(tmp_path, settings=settings) as broker:
        create(broker.bootstrap, "plain")
        create(broker.bootstrap, "deleted")
        create(broker.bootstrap, "compacted", {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})  # fmt: skip
        write_all_codecs(broker.bootstrap, "plain")
        written = write_all_codecs(broker.bootstrap, "deleted")
        write_all_codecs(broker.bootstrap, "compacted", keys=10)
        commit(broker.bootstrap, "group", "plain", 7)
        delete_records(broker.bootstrap, "deleted", written * 2 // 3)
        wait_for(lambda: cleaned(broker.data / "compacted-0"), "the compaction")
        broker.stop() if ending == "stopped" else broker.kill()

        logs = [each for each in sorted(broker.data.glob("*-*")) if each.is_dir()]
        assert {each.name for each in logs} > {"plain-0", "deleted-0", "compacted-0"}
        files = [each for log in logs for each in sorted(log.iterdir())]
        shown = dump(of_kind(files, ".log", ".snapshot", ".txnindex"), "--deep-iteration")
        assert shown.count("compresscodec: ") > 100
        for codec in CODECS:
            assert f"compresscodec: {codec.upper() if codec != 'none' else 'NONE'}".lower() in shown.lower()  # fmt: skip
        assert "producerId: " in shown
        assert not complaints(shown)
        indexes = of_kind(files, ".index", ".timeindex")
        assert not complaints(dump(indexes, "--verify-index-only"))
        shown = dump(indexes, "--index-sanity-check")
        assert not complaints(shown)
        assert "passed sanity check" in shown


def complaints(shown: str) -> list[str]:
    """Lines of DumpLogSegments that find fault; gaps of offsets are no fault in a compacted log."""
    wrong = re.compile(
        r"Mismatch|mismatch|Out of order|not found|Ignoring|Exception|Error|isvalid: false|WARN|ERROR"
        r"|CRC|extra bytes"
    )
    found = [each for each in shown.splitlines() if wrong.search(each)]
    gaps = re.findall(r"Non-consecutive offsets in (\S+)", shown)
    return found + [each for each in gaps if "/compacted-" not in each]


def cleaned(directory: Path) -> bool:
    """Whether the cleaner has thinned out the first segment."""
    first = directory / f"{0:020d}.log"
    return first.exists() and first.stat().st_size < 300_000


def of_kind(files: list[Path], *suffixes: str) -> list[Path]:
    return [each for each in files if each.suffix in suffixes]


# ---------------------------------------------------------------- (b, c) we serve Kafka's directories


class Written(NamedTuple):
    kafka: ApacheKafka
    rows: list[Row]
    topic_id: str
    committed: int


@pytest.fixture(scope="module")
def by_kafka(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A data directory of Apache Kafka, stopped in good order."""
    jars()
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"))
    with kafka.running():
        create(kafka.bootstrap, "orders", {"retention.ms": "-1", "max.message.bytes": "2000000"})
        create(kafka.bootstrap, "table", {"cleanup.policy": "compact"})
        create(kafka.bootstrap, "ours", {"retention.ms": "-1"})
        write_all_codecs(kafka.bootstrap, "orders")
        write_transactions(kafka.bootstrap, "orders")
        write_all_codecs(kafka.bootstrap, "table", keys=10)
        commit(kafka.bootstrap, "accounting", "orders", 815)
        rows = read(kafka.bootstrap, "orders")
        topic_id = id_of(kafka.bootstrap, "orders")
    return Written(kafka, rows, topic_id, 815)


@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_we_serve_a_directory_of_kafka(by_kafka: Written, tmp_path: Path, ending: str) -> None:
    shutil.copytree(by_kafka.kafka.data, tmp_path / "data")
    if ending == "killed":
        (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
        (tmp_path / "data" / "recovery-point-offset-checkpoint").unlink()
    with LocalBroker(tmp_path, settings=SETTINGS) as broker:
        at = broker.bootstrap
        assert read(at, "orders") == by_kafka.rows
        assert len(read(at, "orders", isolation="read_uncommitted")) > len(by_kafka.rows)
        assert id_of(at, "orders") == by_kafka.topic_id
        assert committed(at, "accounting", "orders") == by_kafka.committed
        assert admin(at).list_topics().cluster_id == CLUSTER_ID
        topics = set(admin(at).list_topics().topics)
        assert {"orders", "table", "ours", "__consumer_offsets"} <= topics
        assert "__cluster_metadata" not in topics
        assert config_of(at, "orders", "retention.ms") == "-1"
        assert config_of(at, "table", "cleanup.policy") == "compact"
        # What is written now comes behind.
        last = by_kafka.rows[-1].offset
        assert write(at, "orders", [(b"key", b"after the move")]) > last
        assert read(at, "orders")[-1].value == b"after the move"
        broker.restart()
        assert read(at, "orders")[:-1] == by_kafka.rows
        assert "Traceback" not in broker.log(), broker.log()


def test_producers_are_known_from_kafkas_snapshot(by_kafka: Written, tmp_path: Path) -> None:
    """The last batches of every producer, as Kafka has noted them."""
    directory = tmp_path / "orders-0"
    shutil.copytree(by_kafka.kafka.data / "orders-0", directory)
    snapshots = sorted(directory.glob("*.snapshot"))
    shown = re.findall(r"producerId: (\d+) producerEpoch: (\d+) .*?lastSequence: (-?\d+)", dump(snapshots[-1:]))  # fmt: skip
    assert len(shown) >= len(CODECS)
    end = int(snapshots[-1].stem)
    log = Log.open(
        str(directory),
        files=LocalFiles(),
        config=LogConfig(),
        clock=SystemClock(),
        topic_partition=Partition("orders", 0),
        recovery_point=end,
        clean=True,
    )
    assert log.log_end_offset == end
    known = {
        (str(each), str(state.epoch), str(state.last_sequence))
        for each, state in log.producers.by_id.items()
    }
    assert known == set(shown)


# ---------------------------------------------------------------- (d) Kafka serves our segments


@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_kafka_serves_our_segments(by_kafka: Written, tmp_path: Path, ending: str) -> None:
    with LocalBroker(tmp_path, settings=SETTINGS) as broker:
        create(broker.bootstrap, "ours")
        write_all_codecs(broker.bootstrap, "ours")
        rows = read(broker.bootstrap, "ours")
        broker.stop() if ending == "stopped" else broker.kill()
    kafka = by_kafka.kafka
    theirs = kafka.data / "ours-0"
    for each in theirs.iterdir():
        if each.name != "partition.metadata":
            each.unlink()
    for each in (tmp_path / "data" / "ours-0").iterdir():
        if each.name != "partition.metadata":
            shutil.copy(each, theirs)
    (kafka.data / ".kafka_cleanshutdown").unlink()
    with kafka.running():
        assert read(kafka.bootstrap, "ours") == rows
        assert write(kafka.bootstrap, "ours", [(b"key", b"by Kafka")]) == rows[-1].offset + 1
    complaints = kafka.complaints("ours")
    if ending == "killed":
        # We write the last index when the segment is closed; Kafka rebuilds what it misses.
        complaints = [each for each in complaints if "rebuilding index files" not in each]
    assert not complaints


# ---------------------------------------------------------------- clients


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def create(bootstrap: str, topic: str, config: dict[str, str] | None = None) -> None:
    client = admin(bootstrap)
    client.create_topics([NewTopic(topic, 1, 1, config=config or {})])[topic].result(30)


def config_of(bootstrap: str, topic: str, name: str) -> str:
    client = admin(bootstrap)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    return str(client.describe_configs([resource])[resource].result(30)[name].value)


def delete_records(bootstrap: str, topic: str, up_to: int) -> None:
    client = admin(bootstrap)
    for each in client.delete_records([TopicPartition(topic, 0, up_to)]).values():
        each.result(30)


def id_of(bootstrap: str, topic: str) -> str:
    client = admin(bootstrap)
    return str(client.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id)


def write_all_codecs(bootstrap: str, topic: str, *, keys: int = 1000) -> int:
    """With each codec a producer of its own that is idempotent; the number of records."""
    chance, number = random.Random(4711), 0
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 5,
                "batch.num.messages": 10,
            }
        )
        for _ in range(PER_CODEC):
            producer.produce(
                topic,
                key=f"key-{number % keys}",
                value=chance.randbytes(VALUE_BYTES - 500) + bytes(500),
                timestamp=FIRST_TIME_MS + number * 10,
                headers=[("number", str(number).encode())],
            )
            number += 1
        assert producer.flush(30) == 0
    return number


def write(bootstrap: str, topic: str, pairs: list[tuple[bytes, bytes]]) -> int:
    """The offset of the last record."""
    offsets: list[int] = []

    def told(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offsets.append(message.offset() or 0)

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for key, value in pairs:
        producer.produce(topic, key=key, value=value, on_delivery=told)
    assert producer.flush(30) == 0
    return offsets[-1]


def write_transactions(bootstrap: str, topic: str) -> None:
    """One that is aborted, and one that is committed."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer"})
    producer.init_transactions(30)
    for value in ("aborted", "committed"):
        producer.begin_transaction()
        for _ in range(10):
            producer.produce(topic, key="transaction", value=value)
        producer.flush(30)
        if value == "aborted":
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def read(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[Row]:
    """Every record of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    rows: list[Row] = []
    while (message := consumer.poll(30)) is not None:
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            break
        headers = tuple((name, value) for name, value in message.headers() or [])
        rows.append(
            Row(message.offset(), message.timestamp()[1], message.key(), message.value(), headers)
        )
    consumer.close()
    return rows


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> int:
    client = admin(bootstrap)
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
    answer = client.list_consumer_group_offsets(asked)[group].result(30)
    return int(answer.topic_partitions[0].offset)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.05)
