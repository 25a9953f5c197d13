"""Power cuts under load with `flush.messages=1`: what was acknowledged or read is on the disk, once and in order.

The broker runs on a `FaultyFiles` (see `mortal_broker`): at a chosen write point the process ends, and of its files
only what was synced is left, with or without a random, torn part of the rest.  A producer and a reader live
through all of it.
"""

import contextlib
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from confluent_kafka import Consumer, TopicPartition
from load import PATIENCE_S, Load, check_exactly_once, create_topic, reader
from mortal_broker import CUT
from wire import Closed, Wire

from tidelog.errors import CoordinatorLoadInProgress, NotCoordinator
from tidelog.kernel import scan_batches
from tidelog.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tidelog.testing.faulty_files import Fault
from tidelog.testing.local_broker import BrokerDidNotStart, LocalBroker

pytestmark = pytest.mark.faults

ROUNDS = 50
PARTITIONS = 2
DEATHS = (Fault.DIE, Fault.DIE_TORN, Fault.DIE_AFTER)


class MortalBroker(LocalBroker):
    """A broker whose power can fail; `next_cut` says when and how it does after the next start."""

    def __init__(self) -> None:
        super().__init__(
            settings={
                "log.flush.interval.messages": "1",
                "group.initial.rebalance.delay.ms": "0",
                "offsets.topic.num.partitions": "2",
            }
        )
        self._cut = ["-1", Fault.DIE.name, "none"]

    @property
    def data(self) -> Path:
        return self.directory / "disk" / "data"

    def next_cut(self, point: int, fault: Fault, survivors: int | None) -> None:
        self._cut = [str(point), fault.name, "none" if survivors is None else str(survivors)]

    def never_again(self) -> None:
        self.next_cut(-1, Fault.DIE, None)

    def command(self) -> list[str]:
        serve = super().command()
        options = serve[serve.index("serve") + 1 :]
        script = str(Path(__file__).with_name("mortal_broker.py"))
        return [sys.executable, script, *self._cut, *options]

    def live_and_die(self) -> bool:
        """Start, and return when the power has failed; False if that was before the start was over."""
        try:
            self.start()
        except BrokerDidNotStart:
            assert self.process is not None
            assert self.process.returncode == CUT, self.log()
            return False
        assert self.process is not None
        assert self.process.wait(PATIENCE_S) == CUT, self.log()
        return True


@pytest.fixture
def broker() -> Iterator[MortalBroker]:
    broker = MortalBroker()
    try:
        yield broker
        assert "Traceback" not in broker.log(), broker.log()
    finally:
        broker.kill()
        broker.close()


def test_power_cuts_lose_nothing_acknowledged_and_nothing_read(broker: MortalBroker) -> None:
    chance = random.Random(1912)
    broker.start()
    create_topic(broker.bootstrap, "load", PARTITIONS, {"segment.bytes": "200000"})
    broker.kill()
    in_the_start = 0
    with (
        Load(broker.bootstrap, "load", PARTITIONS) as load,
        Readers(broker.bootstrap, "load", PARTITIONS) as readers,
    ):
        for _ in range(ROUNDS):
            point = chance.randrange(chance.choice((30, 300, 800)))
            survivors = chance.choice((None, chance.randrange(1 << 30)))
            broker.next_cut(point, chance.choice(DEATHS), survivors)
            in_the_start += not broker.live_and_die()
            for partition in range(PARTITIONS):
                end = end_on_disk(broker.data / f"load-{partition}")
                assert load.acknowledged_offset[partition] < end, "acknowledged, and lost"
                assert readers.offset(partition) < end, "read, and lost"
        broker.never_again()
        broker.start()
        load.wait_for_acknowledgements(1000)
        load.finish()
        check_exactly_once(broker.bootstrap, load)
        readers.wait_for(load.sent)
    for partition in range(PARTITIONS):
        assert readers.numbers[partition] == list(range(partition, load.sent, PARTITIONS))
    assert 0 < in_the_start < ROUNDS


def test_power_cuts_lose_no_acknowledged_commit(broker: MortalBroker) -> None:
    chance = random.Random(1912)
    broker.start()
    create_topic(broker.bootstrap, "load")
    with Wire(broker.port) as wire:
        find_coordinator(wire)
        acknowledged = commit(wire, 1)
    broker.kill()
    for _ in range(5):
        survivors = chance.choice((None, chance.randrange(1 << 30)))
        broker.next_cut(chance.randrange(40, 150), chance.choice(DEATHS), survivors)
        broker.start()
        tried = acknowledged
        with contextlib.suppress(Closed, OSError), Wire(broker.port) as wire:
            while True:
                tried += 1
                acknowledged = commit(wire, tried)
        assert broker.process is not None
        assert broker.process.wait(PATIENCE_S) == CUT, broker.log()
        broker.never_again()
        broker.start()
        with Wire(broker.port) as wire:
            found = committed(wire)
        assert acknowledged <= found <= tried
        acknowledged = found
        broker.kill()


def find_coordinator(wire: Wire) -> None:
    """Have the topic of the offsets made."""
    answer = wire.call(FindCoordinatorRequest(key="g"), 3, FindCoordinatorResponse)
    assert answer.error_code == 0


def commit(wire: Wire, offset: int) -> int:
    """Commit for the group `g`; returns when that is acknowledged."""
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="load", partitions=[row])
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=[topic]
    )
    while True:
        answer = wire.call(request, 7, OffsetCommitResponse)
        code = answer.topics[0].partitions[0].error_code
        if code == 0:
            return offset
        assert code in (NotCoordinator.code, CoordinatorLoadInProgress.code)


def committed(wire: Wire) -> int:
    topic = OffsetFetchRequestTopic(name="load", partition_indexes=[0])
    request = OffsetFetchRequest(group_id="g", topics=[topic])
    while True:
        answer = wire.call(request, 5, OffsetFetchResponse)
        if answer.error_code == 0:
            return answer.topics[0].partitions[0].committed_offset
        assert answer.error_code in (NotCoordinator.code, CoordinatorLoadInProgress.code)


class Readers:
    """A consumer that reads along from a thread, from the first record, and notes what it sees."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.numbers: list[list[int]] = [[] for _ in range(partitions)]
        self._offsets = [-1] * partitions
        self._assigned = [TopicPartition(topic, each, 0) for each in range(partitions)]
        self._bootstrap = bootstrap
        self._finish = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def offset(self, partition: int) -> int:
        """The last offset that was read."""
        return self._offsets[partition]

    def wait_for(self, count: int) -> None:
        """Return when so many records have been read in all."""
        with self._changed:
            done = self._changed.wait_for(lambda: sum(map(len, self.numbers)) >= count, PATIENCE_S)
        assert done, f"{sum(map(len, self.numbers))} of {count} records read"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._finish.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        with reader(self._bootstrap, **{"log_level": 0, "fetch.wait.max.ms": 50}) as consumer:
            consumer.assign(self._assigned)
            while not self._finish.is_set():
                self._read(consumer)

    def _read(self, consumer: Consumer) -> None:
        for message in consumer.consume(500, 0.05):
            if message.error() is not None:
                continue  # the end of a partition, or the broker is away
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            with self._changed:
                self._offsets[partition] = offset
                self.numbers[partition].append(int((message.value() or b"").split()[0]))
                self._changed.notify_all()


def end_on_disk(directory: Path) -> int:
    """The offset after the last record that can be read back from the files of a partition."""
    end = 0
    for path in sorted(directory.glob("*.log")) if directory.exists() else ():
        data = path.read_bytes()
        batches, _, reason = scan_batches(data, 0, len(data))
        if batches:
            if batches[0][2] != end:
                break  # the end of the segment before it is lost
            end = batches[-1][3] + 1
        if reason:
            break
    return end
