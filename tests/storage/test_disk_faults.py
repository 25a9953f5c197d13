"""Power cuts and kills at every write point: what was acknowledged under the flush policy is there."""

import pytest

from tidelog.errors import KafkaStorageError
from tidelog.names import TopicPartition
from tidelog.records.batch import iterate_batches, parse_header
from tidelog.records.builder import build_batch
from tidelog.storage.config import LogConfig
from tidelog.storage.manager import LogManager
from tidelog.testing.faulty_files import Died, Fault, FaultyFiles, at, by_seed

TP = TopicPartition("orders", 0)
APPENDS = 8
CONFIG = LogConfig(segment_bytes=300, flush_messages=1, index_interval_bytes=0)


def manager(root, files, clock):
    return LogManager([root], files=files, clock=clock, config=CONFIG)


def workload(root, files, clock, acknowledged):
    """Append, flush, acknowledge; roll now and then; delete some records; stop cleanly half way and go on."""
    for part in range(2):
        logs = manager(root, files, clock)
        try:
            logs.start(broker_id=0, cluster_id="c")
            log = logs.get_or_create(TP, None)
            for _ in range(APPENDS // 2):
                number = log.log_end_offset
                batch = build_batch(
                    [(clock.now_ms(), b"k", b"%d" % number * 30, ())],
                    producer_id=7,
                    producer_epoch=0,
                    base_sequence=number,
                )
                log.append_as_leader(batch, leader_epoch=part, header=parse_header(batch))
                log.flush()
                log.high_watermark = log.log_end_offset
                acknowledged.append(number)
                if number % 3 == 2:
                    logs.directories[0].checkpoints()()
            logs.close()
        finally:
            logs.release()


def check_after(root, files, clock, acknowledged):
    logs = manager(root, files, clock)
    logs.start(broker_id=0, cluster_id="c")
    log = logs.get_or_create(TP, None)
    log.check()
    offset, values = 0, []
    while (region := log.read(offset, 200, up_to=log.high_watermark)) is not None:
        values += [header.base_offset for _, header in iterate_batches(region.read())]
        offset = region.end_offset
    assert values == list(range(len(values)))
    assert len(values) >= len(acknowledged)
    assert log.log_end_offset == len(values)
    if values:
        assert log.producers.by_id[7].last_sequence == values[-1]
        assert log.epochs.latest == log.epochs.epoch_for(values[-1])
    batch = build_batch([(1, b"k", b"more", ())])
    assert log.append_as_leader(batch, leader_epoch=9, header=parse_header(batch)).base_offset == len(values)  # fmt: skip
    logs.close()


def count_points(root, clock):
    files = FaultyFiles(root)
    workload(root, files, clock, [])
    return len(files.points)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("fault", "seed"), [(Fault.DIE, None), (Fault.DIE_TORN, 1), (Fault.DIE, 2)]
)
def test_a_power_cut_at_any_point_loses_nothing_acknowledged(tmp_path, clock, fault, seed):
    for number in range(count_points(str(tmp_path / "count"), clock)):
        root = str(tmp_path / f"{number}")
        files, acknowledged = FaultyFiles(root, plan=at(number, fault)), []
        with pytest.raises(Died):
            workload(root, files, clock, acknowledged)
        after = files.cut_power(None if seed is None else seed * 10_000 + number)
        check_after(root, after, clock, acknowledged)


@pytest.mark.faults
@pytest.mark.parametrize("fault", [Fault.DIE_TORN, Fault.DIE_AFTER])
def test_a_kill_at_any_point_loses_nothing_acknowledged(tmp_path, clock, fault):
    for number in range(count_points(str(tmp_path / "count"), clock)):
        root = str(tmp_path / f"{number}")
        files, acknowledged = FaultyFiles(root, plan=at(number, fault)), []
        with pytest.raises(Died):
            workload(root, files, clock, acknowledged)
        check_after(root, files.kill(), clock, acknowledged)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(10))
def test_a_disk_that_fills_up_now_and_then(tmp_path, clock, seed):
    root = str(tmp_path)
    files = FaultyFiles(root)
    logs = manager(root, files, clock)
    logs.start(broker_id=0, cluster_id="c")
    log = logs.get_or_create(TP, None)
    files.plan = by_seed(seed, 0.2)
    written = []
    for number in range(50):
        batch = build_batch([(number, b"k", b"%d" % number * 30, ())])
        try:
            log.append_as_leader(batch, leader_epoch=0, header=parse_header(batch))
        except KafkaStorageError:
            continue
        written.append(number)
        log.check()
    log.high_watermark = log.log_end_offset
    assert log.log_end_offset == len(written)
    files.plan = None
    if log.failure is None:
        log.flush()
    check_after_fill(root, files.cut_power(seed), clock, log, written)


def check_after_fill(root, files, clock, log, written):
    logs = manager(root, files, clock)
    logs.start(broker_id=0, cluster_id="c")
    again = logs.get_or_create(TP, None)
    if log.failure is None:
        assert again.log_end_offset == len(written)
    logs.release()
