"""librdkafka with several batches on their way, of which one is refused: each message is written once, in order."""

import asyncio
import errno
import threading
from typing import Any

import pytest
from confluent_kafka import Producer

from tidelog import Admin, read
from tidelog.broker.handlers import produce as handler
from tidelog.errors import NotLeaderOrFollower
from tidelog.storage.flusher import Flusher
from tidelog.storage.log import Log
from tidelog.storage.segment import Segment
from tidelog.testing.thread_broker import ThreadBroker

TOPIC = "events"
PATIENCE_S = 90.0


class Disk:
    """Stands between the broker and its disk: full for a while, and slow with the first flush, which then fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self.fail_flush = lambda: None
        """Call it once the first flush has begun."""
        self._came = threading.Semaphore(0)
        self._failed = False
        real_write, real_flush, real_append = Segment.append, Flusher.flush, handler._append

        def write(segment: Segment, *rest: Any) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            real_write(segment, *rest)

        def append(*rest: Any) -> Any:
            outcome = real_append(*rest)
            self._came.release()
            return outcome

        async def flush(flusher: Flusher, log: Log, up_to: int) -> None:
            if log.topic_partition.topic == TOPIC and not self._failed:
                self._failed = True
                loop, over = asyncio.get_running_loop(), asyncio.Event()
                self.fail_flush = lambda: loop.call_soon_threadsafe(over.set)
                await over.wait()
                raise NotLeaderOrFollower  # as who waits is told when the leader changes
            await real_flush(flusher, log, up_to)

        monkeypatch.setattr(Segment, "append", write)
        monkeypatch.setattr(handler, "_append", append)
        monkeypatch.setattr(Flusher, "flush", flush)

    def wait_for_batch(self) -> None:
        assert self._came.acquire(timeout=PATIENCE_S)


def test_what_waits_for_its_commit_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of three batches does not fit the disk, the third would; then the first is not acknowledged either.

    Told that the third is out of order, librdkafka begins a new epoch and writes the first a second time.
    """
    with ThreadBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([TOPIC], configs={"flush.messages": "1"})
        disk = Disk(monkeypatch)
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 0}
        )
        for number in range(3):
            disk.full = number == 1
            producer.produce(TOPIC, b"%d" % number)
            disk.wait_for_batch()
        disk.fail_flush()
        assert producer.flush(PATIENCE_S) == 0
        values = read(TOPIC, bootstrap=broker.bootstrap, columns=["value"])["value"].to_pylist()
        assert values == [b"0", b"1", b"2"]
