"""The cleaner over real logs: with a worker in this process, and with the real one."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tidelog.names import TopicPartition
from tidelog.records.batch import iterate_batches, parse_header, read_records
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.storage.checkpoints import read_offsets
from tidelog.storage.cleaner import Cleaner
from tidelog.storage.cleaner_config import CleanerConfig
from tidelog.storage.cleaner_process import WorkerLost, WorkerProcess
from tidelog.storage.cleaner_worker import Begin, Work
from tidelog.storage.compaction import CLEANER_CHECKPOINT
from tidelog.storage.compaction_pass import Job
from tidelog.storage.config import LogConfig
from tidelog.storage.files import Files, LocalFiles
from tidelog.storage.flusher import Flusher
from tidelog.storage.log import Log
from tidelog.testing.faulty_files import Died, Fault, FaultyFiles, at, on
from tidelog.testing.manual_clock import ManualClock

PARTITION = TopicPartition("orders", 0)
CONFIG = LogConfig(
    cleanup_policy=("compact",),
    segment_bytes=2000,
    index_interval_bytes=200,
    min_cleanable_dirty_ratio=0.01,
)


class InlineWorker:
    """Does a worker's work right here."""

    def __init__(self, files: Files) -> None:
        self.work = Work(files, lambda: 0.0, lambda seconds: None)
        self.before_group: Callable[[], None] = lambda: None

    async def begin(self, job: Job, bytes_per_second: float) -> Any:
        return self.work.answer(Begin(job, bytes_per_second))

    async def clean(self, group: list[int]) -> Any:
        self.before_group()
        return self.work.answer(group)

    async def stop(self) -> None:
        pass


class Bench:
    """One log, its cleaner, and a worker."""

    def __init__(self, root: str, files: Files | None = None, config: LogConfig = CONFIG) -> None:
        self.root = root
        self.files = files or LocalFiles()
        self.clock = ManualClock()
        self.log = self.open(config)
        self.logs = [self.log]
        self.worker = InlineWorker(self.files)
        self.noted: list[tuple[int, list[int]]] = []
        """Recovery points that were written down, and how large the segments were then."""
        self.cleaner = self.new_cleaner()

    def open(self, config: LogConfig = CONFIG) -> Log:
        return Log.open(
            os.path.join(self.root, str(PARTITION)),
            files=self.files,
            config=config,
            clock=self.clock,
            topic_partition=PARTITION,
        )

    def new_cleaner(self, start_worker: Any = None, **config: Any) -> Cleaner:
        async def inline() -> InlineWorker:
            return self.worker

        return Cleaner(
            logs=lambda: self.logs,
            config=CleanerConfig(**config),
            files=self.files,
            clock=self.clock,
            flusher=Flusher(),
            note=self.note,
            start_worker=start_worker or inline,
        )

    async def note(self, log: Log) -> None:
        self.noted.append((log.recovery_point, [each.size for each in log.segments]))

    def append(self, *pairs: tuple[bytes, bytes | None], codec: Codec = Codec.NONE) -> None:
        rows = [(self.clock.now_ms(), key, value, ()) for key, value in pairs]
        batch = build_batch(rows, codec=codec)
        self.log.append_as_leader(batch, leader_epoch=0, header=parse_header(batch))
        self.log.high_watermark = self.log.log_end_offset

    def overwrite(self, rounds: int, keys: int = 10, *, roll: bool = False) -> None:
        for number in range(rounds):
            for key in range(keys):
                self.append((b"%d" % key, b"%d" % number), codec=list(Codec)[key % 5])
            if roll:
                self.log.roll()


def read_all(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Everything, as a consumer from the start gets it."""
    found = []
    offset = log.log_start_offset
    while (region := log.read(offset, 700, up_to=log.high_watermark)) is not None:
        data = region.file.pread(region.length, region.position)
        before = offset
        for position, header in iterate_batches(data):
            found += [
                (x.offset, x.key, x.value)
                for x in read_records(data, position)
                if x.offset >= before
            ]
            offset = header.last_offset + 1
        assert offset > before
    return found


def state_of(log: Log) -> dict[bytes | None, bytes]:
    last = {key: value for _, key, value in read_all(log)}
    return {key: value for key, value in last.items() if value is not None}


async def test_a_log_is_cleaned_and_the_checkpoint_written(tmp_path) -> None:
    bench = Bench(str(tmp_path))
    bench.overwrite(50)
    before, size = state_of(bench.log), bench.log.size_bytes
    assert await bench.cleaner.clean_once() == PARTITION
    bench.log.check()
    assert state_of(bench.log) == before == {b"%d" % key: b"49" for key in range(10)}
    assert bench.log.size_bytes < size / 5
    active = bench.log.segments[-1].base_offset
    checkpoint = read_offsets(bench.files, str(tmp_path / CLEANER_CHECKPOINT))
    assert checkpoint == {PARTITION: active}
    assert bench.cleaner.counters.passes == 1
    # Before anything was replaced: recovery takes a gap behind the noted recovery point for a loss.
    [(noted, sizes)] = bench.noted
    assert noted >= active
    assert sum(sizes) == size
    assert bench.cleaner.counters.records_kept < bench.cleaner.counters.records_read
    # A new cleaner goes on from there: there is nothing to do.
    assert await bench.new_cleaner().clean_once() is None


async def test_a_reopened_log_is_the_same(tmp_path) -> None:
    bench = Bench(str(tmp_path))
    bench.overwrite(30)
    await bench.cleaner.clean_once()
    records = read_all(bench.log)
    bench.log.close(clean=False)
    assert read_all(bench.open()) == records


async def test_offsets_and_timestamps_find_their_way_through_gaps(tmp_path) -> None:
    bench = Bench(str(tmp_path))
    for number in range(100):
        bench.clock.advance(1000)
        bench.append((b"%d" % (number % 7), b"x" * 50))
    begin = bench.clock.now_ms() - 99_000
    assert await bench.cleaner.clean_once()
    left = {offset for offset, _, _ in read_all(bench.log)}
    assert len(left) < 60
    for offset in range(100):
        region = bench.log.read(offset, 1, up_to=100)
        assert region is not None
        header = parse_header(region.file.pread(region.length, region.position))
        assert header.last_offset >= min(each for each in left if each >= offset)
        found = bench.log.find_timestamp(begin + offset * 1000, up_to=100)
        assert found is not None
        assert found[1] == min(each for each in left if each >= offset)


async def test_a_reader_inside_an_old_segment_goes_on(tmp_path) -> None:
    bench = Bench(str(tmp_path))
    bench.overwrite(20)
    region = bench.log.read(0, 1500, up_to=bench.log.high_watermark)
    assert region is not None
    before = region.file.pread(region.length, region.position)
    assert await bench.cleaner.clean_once()
    assert region.file.pread(region.length, region.position) == before


@pytest.mark.parametrize("change", ["truncate", "delete", "cut", "fail"])
async def test_a_log_that_changes_meanwhile_is_left_alone(tmp_path, change) -> None:
    bench = Bench(str(tmp_path))
    bench.overwrite(30)
    log = bench.log

    def meanwhile() -> None:
        if change == "truncate":
            log.truncate_to(log.segments[0].base_offset + 5)
        elif change == "delete":
            bench.logs.clear()
        elif change == "cut":
            log.drop_first(log.segments[:1])
        else:
            log.fail(OSError(5, "broken"))

    bench.worker.before_group = meanwhile
    names = sorted(each.path for each in log.segments)
    assert await bench.cleaner.clean_once() is None
    assert bench.cleaner.counters.abandoned == 1
    assert {each.path for each in log.segments} <= set(names)
    assert not [each for each in os.listdir(log.directory) if each.endswith((".cleaned", ".swap"))]


async def test_corrupt_bytes_make_a_log_uncleanable(tmp_path, caplog) -> None:
    bench = Bench(str(tmp_path))
    bench.overwrite(30)
    segment = bench.log.segments[1]
    segment.file().pwrite(b"\xff" * 20, 200)
    sizes = [each.size for each in bench.log.segments]
    with caplog.at_level(logging.ERROR):
        assert await bench.cleaner.clean_once() is None
    assert bench.cleaner.uncleanable == {PARTITION}
    assert len(caplog.records) == 1
    assert segment.path in caplog.text
    assert [each.size for each in bench.log.segments] == sizes
    assert await bench.cleaner.clean_once() is None
    assert len(caplog.records) == 1
    await bench.cleaner.forget(PARTITION)
    assert not bench.cleaner.uncleanable


async def test_a_disk_that_is_full_costs_a_pass_and_a_rest(tmp_path, caplog) -> None:
    bench = Bench(str(tmp_path))
    bench.overwrite(30)
    before = state_of(bench.log)
    plan = on("write", ".log.cleaned", Fault.SHORT)
    bench.worker = InlineWorker(FaultyFiles(str(tmp_path), plan=plan))
    assert await bench.cleaner.clean_once() is None
    assert "No space left" in caplog.text
    assert state_of(bench.log) == before
    bench.worker = InlineWorker(bench.files)
    bench.cleaner._idle_workers.clear()
    assert await bench.cleaner.clean_once() is None  # rests
    bench.clock.advance(61_000)
    assert await bench.cleaner.clean_once() == PARTITION
    assert state_of(bench.log) == {b"%d" % key: b"29" for key in range(10)}


async def test_truncation_moves_the_checkpoint_back(tmp_path) -> None:
    bench = Bench(str(tmp_path))
    bench.overwrite(30)
    await bench.cleaner.clean_once()
    bench.cleaner.truncated(bench.log, 50)
    assert bench.cleaner._checkpoint_of(bench.log)[PARTITION] == 50
    bench.cleaner.truncated(bench.log, 60)
    assert bench.cleaner._checkpoint_of(bench.log)[PARTITION] == 50


async def test_a_deleted_log_is_forgotten_for_good(tmp_path) -> None:
    bench = Bench(str(tmp_path))
    bench.overwrite(30)
    await bench.cleaner.clean_once()
    await bench.cleaner.forget(PARTITION)
    assert read_offsets(bench.files, str(tmp_path / CLEANER_CHECKPOINT)) == {}


async def test_a_checkpoint_past_the_end_is_not_believed(tmp_path) -> None:
    bench = Bench(str(tmp_path))
    bench.overwrite(30)
    bench.cleaner._checkpoint_of(bench.log)[PARTITION] = 10_000
    assert await bench.cleaner.clean_once() == PARTITION
    assert len(read_all(bench.log)) < 100


async def test_only_compacted_logs_are_looked_at(tmp_path) -> None:
    config = LogConfig(segment_bytes=2000, min_cleanable_dirty_ratio=0.0)
    bench = Bench(str(tmp_path), config=config)
    bench.overwrite(30)
    assert await bench.cleaner.clean_once() is None


async def test_the_dirtiest_log_comes_first(tmp_path) -> None:
    bench = Bench(str(tmp_path / "a"))
    other = Bench(str(tmp_path / "b"))
    other.log.topic_partition = TopicPartition("other", 1)
    bench.overwrite(30)
    other.overwrite(30)
    bench.logs.append(other.log)
    bench.cleaner._checkpoint_of(bench.log)[PARTITION] = 100
    assert await bench.cleaner.clean_once() == ("other", 1)
    assert await bench.cleaner.clean_once() == PARTITION
    assert await bench.cleaner.clean_once() is None


def test_settings_have_kafkas_names_and_defaults() -> None:
    config = CleanerConfig.load({"log.cleaner.threads": "2", "log.cleaner.enable": "false"})
    assert (config.threads, config.enable, config.backoff_ms) == (2, False, 15_000)
    assert config.dedupe_buffer_size == 134_217_728
    assert config.io_buffer_size == 524_288


# ---------------------------------------------------------------------- crashes


@pytest.mark.parametrize("afterwards", ["kill", "cut_power"])
async def test_a_crash_at_any_step_leaves_old_or_new(tmp_path, afterwards) -> None:
    reference = Bench(str(tmp_path / "reference"))
    reference.overwrite(5, roll=True)
    valid: list[Any] = []  # before the first group, and after each of them
    reference.worker.before_group = lambda: valid.append(read_all(reference.log))
    await reference.cleaner.clean_once()
    valid.append(read_all(reference.log))
    assert len(valid[-1]) < len(valid[0])
    seen: list[int] = []
    for step in range(1000):
        files = FaultyFiles(str(tmp_path / str(step)))
        bench = Bench(str(tmp_path / str(step)), files)
        bench.overwrite(5, roll=True)
        bench.log.flush()
        files.sync_directory(bench.root)
        fault = (Fault.DIE, Fault.DIE_TORN, Fault.DIE_AFTER)[step % 3]
        files.plan = at(len(files.points) + step, fault)
        try:
            assert await bench.cleaner.clean_once() == PARTITION
        except Died:
            finished = False
        else:
            finished = True
        bench.files = files.kill() if afterwards == "kill" else files.cut_power(seed=step)
        found = read_all(bench.open())
        seen.append(next(i for i, each in enumerate(valid) if set(each) <= set(found)))
        # Recovery may keep an old segment of a group of which nothing was left: the next pass cleans it again.
        assert set(found) <= set(valid[max(0, seen[-1] - 1)]), step
        assert found == sorted(found)
        assert dict(each[1:] for each in found) == dict(each[1:] for each in valid[0])
        if finished:
            break
    assert finished
    assert seen == sorted(seen)
    assert len(set(seen)) > 2
    assert found == valid[-1]


# ---------------------------------------------------------------------- the real worker


async def test_a_topic_under_constant_overwrite_stays_bounded_while_it_is_read(tmp_path) -> None:
    bench = Bench(str(tmp_path))
    cleaner = bench.new_cleaner(WorkerProcess.start)
    written: dict[bytes | None, bytes] = {}
    running = True
    cleaned = asyncio.Event()

    async def overwrite() -> None:
        for number in range(20):
            for key in range(10):
                bench.append((b"%d" % key, b"%d" % number))
                written[b"%d" % key] = b"%d" % number
            await asyncio.sleep(0)

    async def clean() -> None:
        while running:
            if await cleaner.clean_once():
                cleaned.set()
            await asyncio.sleep(0)

    async def read() -> int:
        reads = 0
        while running:
            known = dict(written)
            found = read_all(bench.log)
            # All on one loop: nothing is written while a reader reads.
            assert {key: value for _, key, value in found} == known
            offsets = [offset for offset, _, _ in found]
            assert offsets == sorted(set(offsets))
            reads += 1
            await asyncio.sleep(0)
        return reads

    tasks = [asyncio.create_task(clean()), asyncio.create_task(read())]
    for _ in range(4):
        await overwrite()
        await cleaned.wait()
        cleaned.clear()
    running = False
    _, reads = await asyncio.gather(*tasks)
    while await cleaner.clean_once():
        pass
    assert reads > 4
    assert state_of(bench.log) == written
    assert bench.log.log_end_offset == 800
    # What is left: the active segment, and about one record for each key.
    assert bench.log.size_bytes < CONFIG.segment_bytes + 20 * 100
    await cleaner.stop_workers()


async def test_a_killed_worker_is_noticed_and_replaced(tmp_path, caplog) -> None:
    bench = Bench(str(tmp_path))
    bench.overwrite(30)
    workers: asyncio.Queue[WorkerProcess] = asyncio.Queue()

    async def start() -> WorkerProcess:
        worker = await WorkerProcess.start()
        workers.put_nowait(worker)
        return worker

    cleaner = bench.new_cleaner(start, io_max_bytes_per_second=100.0)  # would take minutes
    task = asyncio.create_task(cleaner.clean_once())
    first = await workers.get()
    os.kill(first.pid, signal.SIGKILL)
    assert await task is None
    assert cleaner.counters.workers_lost == 1
    assert f"process {first.pid}) ended with -9" in caplog.text
    with pytest.raises(WorkerLost):
        await first.clean([0])
    await first.stop()

    bench.clock.advance(61_000)
    cleaner.config = CleanerConfig()
    assert await cleaner.clean_once() == PARTITION
    assert workers.get_nowait().pid != first.pid
    assert state_of(bench.log) == {b"%d" % key: b"29" for key in range(10)}
    await cleaner.stop_workers()


async def test_the_cleaner_survives_what_nobody_foresaw(tmp_path, caplog) -> None:
    bench = Bench(str(tmp_path))
    bench.overwrite(30)
    tries = 0

    async def start() -> InlineWorker:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RuntimeError("no process today")
        return bench.worker

    cleaner = bench.new_cleaner(start, backoff_ms=0)
    cleaned = asyncio.Event()
    bench.worker.before_group = cleaned.set
    task = asyncio.create_task(cleaner.run())
    await cleaned.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "no process today" in caplog.text


async def test_the_worker_ends_with_its_parent() -> None:
    worker = await WorkerProcess.start()
    stdin = worker._process.stdin
    assert stdin is not None
    stdin.close()
    assert await worker._process.wait() == 0


async def test_cancelling_ends_the_worker(tmp_path) -> None:
    bench = Bench(str(tmp_path))
    bench.overwrite(30)
    workers: asyncio.Queue[WorkerProcess] = asyncio.Queue()

    async def start() -> WorkerProcess:
        worker = await WorkerProcess.start()
        workers.put_nowait(worker)
        return worker

    cleaner = bench.new_cleaner(start, io_max_bytes_per_second=100.0)
    task = asyncio.create_task(cleaner.run())
    worker = await workers.get()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert worker._process.returncode == -9


BOTH = replace(CONFIG, cleanup_policy=("compact", "delete"), retention_ms=100_000)


async def test_compact_and_delete_keeps_the_latest_of_what_is_not_too_old(tmp_path) -> None:
    bench = Bench(str(tmp_path), config=BOTH)
    log = bench.log
    bench.append(*((b"old-%d" % key, b"x" * 100) for key in range(10)))
    bench.overwrite(5, roll=True)
    bench.clock.advance(90_000)
    bench.overwrite(30, keys=5)
    log.roll()
    assert log.delete_old_segments(bench.clock.now_ms()) == []
    assert await bench.cleaner.clean_once() == PARTITION
    # Nothing is too old yet: compaction has kept every key.
    assert len(state_of(log)) == 20
    bench.clock.advance(20_000)
    assert log.delete_old_segments(bench.clock.now_ms())
    left = state_of(log)
    # A segment goes when all of it is too old: what was written since is there in any case.
    assert {key: left.get(b"%d" % key) for key in range(5)} == dict.fromkeys(range(5), b"29")
    assert len(left) < 20
    assert log.log_start_offset > 0
    log.check()
    bench.clock.advance(200_000)
    assert log.delete_old_segments(bench.clock.now_ms())
    assert state_of(log) == {}
    assert log.log_start_offset == log.log_end_offset
    # And it goes on: the cleaner's checkpoint lies before the log's start by now.
    bench.overwrite(20)
    log.roll()
    assert await bench.cleaner.clean_once() == PARTITION
    assert state_of(log) == {b"%d" % key: b"19" for key in range(10)}


async def test_compact_and_delete_obeys_the_size_too(tmp_path) -> None:
    bench = Bench(str(tmp_path), config=replace(BOTH, retention_ms=-1, retention_bytes=6000))
    for number in range(200):
        bench.append((b"key-%d" % number, b"x" * 100))
    assert await bench.cleaner.clean_once() == PARTITION
    assert len(state_of(bench.log)) == 200
    assert bench.log.delete_old_segments(bench.clock.now_ms())
    assert 6000 <= bench.log.size_bytes < 6000 + 2 * 2000
    assert len(state_of(bench.log)) < 200


async def test_retention_while_a_log_is_cleaned_brings_nothing_back(tmp_path) -> None:
    bench = Bench(str(tmp_path), config=BOTH)
    log = bench.log
    bench.overwrite(30, roll=True)
    bench.clock.advance(90_000)
    bench.overwrite(10, keys=3, roll=True)
    bench.clock.advance(20_000)

    def retention() -> None:
        log.delete_old_segments(bench.clock.now_ms())

    bench.worker.before_group = retention
    await bench.cleaner.clean_once()
    bench.worker.before_group = lambda: None
    assert set(state_of(log)) == {b"0", b"1", b"2"}
    log.check()
    start = log.log_start_offset
    log.close(clean=False)
    again = bench.open(BOTH)
    assert again.log_start_offset >= start
    assert set(state_of(again)) == {b"0", b"1", b"2"}
