"""A compacted topic under constant overwrite stays bounded while it is read, and keeps the latest of every key."""

import pytest
from confluent_kafka import Producer
from load import PATIENCE_S, create_topic, read_all

from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.faults

KEYS = 200
ROUNDS = 20
PADDING = b"." * 500


def size_on_disk(broker: LocalBroker, topic: str) -> int:
    total = 0
    for path in (broker.data / f"{topic}-0").glob("*.log"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # cleaned away while we look
            continue
    return total


def latest(broker: LocalBroker, topic: str) -> dict[bytes, int]:
    """What a reader from the start knows at the end; its offsets must grow."""
    messages = read_all(broker.bootstrap, topic, 0)
    offsets = [each.offset() for each in messages]
    assert offsets == sorted(set(offsets))
    return {each.key(): int((each.value() or b"").split()[0]) for each in messages}


def test_overwriting_without_end_stays_bounded(broker: LocalBroker) -> None:
    broker.settings |= {
        "log.cleaner.backoff.ms": "50",
        "log.segment.delete.delay.ms": "100",
        "log.index.size.max.bytes": "65536",
    }
    broker.start()
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": str(256 * 1024),
        "min.cleanable.dirty.ratio": "0.1",
        "file.delete.delay.ms": "100",
    }
    create_topic(broker.bootstrap, "table", configs=configs)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    written = 0
    sizes: list[int] = []
    for round_ in range(ROUNDS):
        for _ in range(10):  # 1 MB a round
            for key in range(KEYS):
                producer.produce("table", b"%d %s" % (written, PADDING), b"%d" % key)
                written += 1
            assert producer.flush(PATIENCE_S) == 0
        found = latest(broker, "table")
        assert found == {b"%d" % key: written - KEYS + key for key in range(KEYS)}, round_
        sizes.append(size_on_disk(broker, "table"))
    # 20 MB went in, the latest values are 0.1 MB: without cleaning the last size would be all of it.
    assert min(sizes[-5:]) < 8 * 1024 * 1024, sizes
    broker.restart(kill=True)
    assert latest(broker, "table") == found
