"""The log against a list: random appends, reads, rolls, truncations, deletions and restarts."""

import os
import shutil
import tempfile

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidelog.names import TopicPartition
from tidelog.records.batch import iterate_batches, parse_header, read_records
from tidelog.records.builder import build_batch
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.log import Log
from tidelog.testing.manual_clock import ManualClock

PRODUCER = 7
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, segment_index_bytes=64)


class UnsyncedFiles(LocalFiles):
    """No syncing: nothing is cut off here, and it would be slow."""

    def sync_directory(self, path: str) -> None:
        return


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp(prefix="tidelog-model-")
        self.clock = ManualClock(1_010)
        self.records: list[tuple[int, int, bytes]] = []
        """Offset, timestamp, value."""
        self.start = self.end = self.epoch = 0
        self.sequences: list[tuple[int, int]] = []
        """First offset of a batch, and the last sequence that its producer had with it."""
        self.batch_ends = {0}

    @initialize()
    def begin(self) -> None:
        self.log = self.open(clean=False, recovery_point=0)

    def open(self, *, clean: bool, recovery_point: int) -> Log:
        return Log.open(
            os.path.join(self.root, "t-0"),
            files=UnsyncedFiles(),
            config=CONFIG,
            clock=self.clock,
            topic_partition=TopicPartition("t", 0),
            recovery_point=recovery_point,
            log_start_offset=self.start,
            clean=clean,
        )

    @rule(
        values=st.lists(st.binary(max_size=90), min_size=1, max_size=4),
        timestamp=st.integers(0, 1000),
        epoch=st.integers(0, 3),
        idempotent=st.booleans(),
    )
    def append(self, values: list[bytes], timestamp: int, epoch: int, idempotent: bool) -> None:
        rows = [(timestamp + i, b"k", value, ()) for i, value in enumerate(values)]
        data = build_batch(rows)
        if idempotent:
            first = self.sequences[-1][1] + 1 if self.sequences else 0
            data = build_batch(rows, producer_id=PRODUCER, producer_epoch=0, base_sequence=first)
            self.sequences.append((self.end, first + len(values) - 1))
        epoch = self.epoch = max(epoch, self.epoch)
        appended = self.log.append_as_leader(data, leader_epoch=epoch, header=parse_header(data))
        assert appended.base_offset == self.end
        for i, value in enumerate(values):
            self.records.append((self.end + i, timestamp + i, value))
        self.end += len(values)
        self.batch_ends.add(self.end)
        self.log.high_watermark = self.log.log_end_offset

    @rule(data=st.data(), max_bytes=st.integers(0, 900))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        up_to = data.draw(st.sampled_from(sorted(b for b in self.batch_ends if b <= self.end)))
        region = self.log.read(offset, max_bytes, up_to=up_to)
        if region is None:
            assert offset >= up_to
            return
        content = region.read()
        found = [
            (each.offset, each.timestamp, each.value)
            for position, _ in iterate_batches(content)
            for each in read_records(content, position)
            if each.offset >= offset
        ]
        expected = [each for each in self.records if offset <= each[0] < region.end_offset]
        assert found == expected
        assert found
        assert found[-1][0] < up_to
        batches = list(iterate_batches(content))
        assert len(content) <= max_bytes or len(batches) == 1

    @rule(target_ms=st.integers(0, 1010))
    def find_timestamp(self, target_ms: int) -> None:
        found = self.log.find_timestamp(target_ms, up_to=self.end)
        expected = next((r for r in self.records if r[0] >= self.start and r[1] >= target_ms), None)
        assert (found and (found[1], found[0])) == (expected and (expected[0], expected[1]))

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        ends = sorted(each for each in self.batch_ends if self.start <= each <= self.end)
        if not ends:
            return
        self.cut_to(data.draw(st.sampled_from(ends)))

    def cut_to(self, offset: int) -> None:
        self.log.truncate_to(offset)
        self.records = [each for each in self.records if each[0] < offset]
        self.batch_ends = {each for each in self.batch_ends if each <= offset}
        self.sequences = [each for each in self.sequences if each[0] < offset]
        self.end = offset

    @rule(stop=st.booleans())
    def write_the_last_batch_anew(self, stop: bool) -> None:
        """As a follower does that was ahead of its leader: the log ends where it ended before."""
        ends = sorted(each for each in self.batch_ends if self.start <= each <= self.end)
        if len(ends) < 2:
            return
        values = [b"anew"] * (self.end - ends[-2])
        self.cut_to(ends[-2])
        self.append(values, 7, 0, True)
        if stop:
            self.log.flush()
            self.restart(clean=True)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.end))
        assert self.log.delete_records(self.start) == self.start
        self.log.delete_old_segments(0)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.log.close(clean=clean)
        self.log = self.open(clean=clean, recovery_point=self.log.recovery_point)

    @invariant()
    def offsets_agree(self) -> None:
        if hasattr(self, "log"):
            self.log.check()
            assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
            # Of one whose records are all deleted, or expired, a log may know or not.
            kept = [each for each in self.sequences if each[0] >= self.start]
            if kept:
                assert self.log.producers.by_id[PRODUCER].last_sequence == kept[-1][1]

    def teardown(self) -> None:
        shutil.rmtree(self.root)


LogMachine.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLogModel = LogMachine.TestCase
