"""Random lives of a follower's log that end with a power cut: what was flushed is there, and nothing is mixed.

The log is written in epochs, flushed, checkpointed, cut back and written anew, on a disk that is full at times, with
flushes that begin before a cut and end after it.  Then the power goes, and a part of what was not synced survives.
"""

import asyncio
import random

import pytest

from tidelog.errors import KafkaStorageError
from tidelog.kernel import stamp_batch
from tidelog.names import TopicPartition
from tidelog.records.batch import iterate_batches, read_records
from tidelog.records.builder import build_batch
from tidelog.storage import truncation
from tidelog.storage.config import LogConfig
from tidelog.storage.manager import LogManager
from tidelog.testing.faulty_files import FaultyFiles, by_seed

TP = TopicPartition("orders", 3)
STEPS = 30
PRODUCERS = (7, 8)


def manager(root, files, clock):
    config = LogConfig(segment_bytes=400, index_interval_bytes=0)
    return LogManager([root], files=files, clock=clock, config=config)


class Life:
    """A log, and what must be true of it after the power has gone."""

    def __init__(self, root: str, clock, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files = FaultyFiles(root)
        self.logs = manager(root, self.files, clock)
        self.logs.start(broker_id=0, cluster_id="c")
        self.epoch, self.now_ms = 0, clock.now_ms()
        self.written: list[tuple[int, int, int, int]] = []
        """What is in the log: number of the record, its epoch, its producer and sequence; one record an offset."""
        self.every: list[tuple[int, int, int, int]] = []
        """All that was ever written."""
        self.neighbours: set[tuple[int, int]] = set()
        """Records that have been beside each other."""
        self.numbers = 0
        self.promised = 0
        """So many records were flushed, and not cut off since."""

    async def run(self) -> None:
        await self.logs.begin_life("monday", 1)
        self.log = self.logs.get_or_create(TP, None)
        flush, begun = None, 0
        full = self.chance.random() < 0.5
        for number in range(STEPS):
            # The disk is full now and then, but not while things begin.
            self.files.plan = by_seed(number, 0.1) if full and number % 5 == 4 else None
            step = self.chance.random()
            try:
                if step < 0.5:
                    self.append()
                elif step < 0.6 and flush is None:
                    flush, begun = self.log.prepare_flush(), len(self.written)
                    flush.run()
                elif step < 0.7 and flush is not None:
                    flush.done()
                    if self.log.recovery_point >= begun:
                        self.promised = max(self.promised, min(begun, len(self.written)))
                    flush = None
                elif step < 0.8:
                    await self.logs.checkpoint()
                else:
                    await self.cut(self.chance.randint(0, len(self.written)))
            except (KafkaStorageError, OSError):
                if self.log.failure is not None:
                    break
            self.written = self.written[: self.log.log_end_offset]
            self.promised = min(self.promised, len(self.written))
            self.log.check()

    def append(self) -> None:
        self.epoch += self.chance.random() < 0.3
        batches = b""
        rows = []
        for _ in range(self.chance.randint(1, 4)):
            producer = self.chance.choice((*PRODUCERS, -1))
            before = [each[3] for each in [*self.written, *rows] if each[2] == producer]
            sequence = before[-1] + 1 if before else 0
            batch = bytearray(
                build_batch(
                    [(self.now_ms, b"k", b"%d" % self.numbers * 30, ())],
                    producer_id=producer,
                    producer_epoch=-1 if producer < 0 else 0,
                    base_sequence=-1 if producer < 0 else sequence,
                )
            )
            stamp_batch(batch, 0, len(self.written) + len(rows), self.epoch)
            batches += bytes(batch)
            rows.append((self.numbers, self.epoch, producer, sequence))
            self.numbers += 1
        for row in rows:
            # Before the append: a disk that is full takes some of them.
            last = self.written[-1][0] if self.written else -1
            self.neighbours.add((last, row[0]))
            self.written.append(row)
        self.every += rows
        self.log.append_as_follower(batches)

    async def cut(self, offset: int) -> None:
        async with truncation.prepared(self.log, offset) as restored:
            self.log.truncate_to(offset, restored)
        self.epoch += 1  # who writes on leads in an epoch of its own
        self.check_memory()

    def check_memory(self) -> None:
        assert self.log.log_end_offset <= len(self.written)
        check_producers(self.log, self.written[: self.log.log_end_offset])


def check_producers(log, rows) -> None:
    for producer in PRODUCERS:
        wanted = [each[3] for each in rows if each[2] == producer]
        known = log.producers.by_id.get(producer)
        assert (known.last_sequence if known else None) == (wanted[-1] if wanted else None)


def read(log) -> list[int]:
    found, offset = [], 0
    while (region := log.read(offset, 500, up_to=log.log_end_offset)) is not None:
        data = region.read()
        for position, header in iterate_batches(data):
            assert header.leader_epoch == log.epochs.epoch_for(header.base_offset)
            found += [
                int(each.value[: len(each.value) // 30]) for each in read_records(data, position)
            ]
        offset = region.end_offset
    return found


@pytest.mark.faults
@pytest.mark.parametrize("part", range(4))
def test_what_a_power_cut_leaves_of_a_log_that_was_cut(tmp_path, clock, part):
    for seed in range(part * 25, part * 25 + 25):
        root = str(tmp_path / f"{seed}")
        life = Life(root, clock, seed)
        asyncio.run(_inline(life.run()))
        life.files.plan = None
        again = manager(root, life.files.cut_power(seed), clock)
        again.start(broker_id=0, cluster_id="c")
        log = again.get(TP)
        numbers = read(log) if log is not None else []
        told = f"seed {seed}: {numbers}, of {[each[0] for each in life.written]}"
        assert len(numbers) >= life.promised, told
        promised = [each[0] for each in life.written[: life.promised]]
        assert numbers[: life.promised] == promised, told
        assert set(zip([-1, *numbers], numbers, strict=False)) <= life.neighbours, told
        if log is not None:
            log.check()
            by_number = {each[0]: each for each in life.every}
            check_producers(log, [by_number[each] for each in numbers])
            for end in range(len(numbers), 0, -3):
                log.truncate_to(end)  # by the snapshots that recovery has left
                check_producers(log, [by_number[each] for each in numbers[:end]])
        again.close(clean=False)


async def _inline(work) -> None:
    """What belongs in a thread is done at once, so that a seed is the same every time."""

    async def done(_, do, *args):
        return do(*args)

    asyncio.get_running_loop().run_in_executor = done
    await work
