"""A log that copies its leader's: producers, transactions and epochs are the leader's too, also after a truncation."""

import errno
from random import Random

import pytest

from tidelog.errors import CorruptMessage, KafkaStorageError
from tidelog.names import TopicPartition
from tidelog.records.batch import iterate_batches, parse_header
from tidelog.records.builder import build_batch
from tidelog.records.control import EndTransactionMarker
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.log import Log
from tidelog.storage.segment import Segment
from tidelog.testing.manual_clock import ManualClock

NOW_MS = 1_700_000_000_000


def open_log(directory, **rest) -> Log:
    return Log.open(
        str(directory),
        files=LocalFiles(),
        config=LogConfig(segment_bytes=1_200, index_interval_bytes=100),
        clock=ManualClock(),
        topic_partition=TopicPartition("t", 0),
        **rest,
    )


def lead(log: Log, random: Random, batches: int) -> None:
    """Write as producers do: idempotent, in transactions, and plain; leaders change now and then."""
    sequences: dict[int, int] = {}
    in_transaction: set[int] = set()
    epoch = 0
    for _ in range(batches):
        epoch += random.random() < 0.1
        producer = random.randrange(4)
        if producer in in_transaction and random.random() < 0.4:
            marker = EndTransactionMarker(random.random() < 0.5, 0).build(
                producer_id=producer, producer_epoch=0, timestamp_ms=NOW_MS
            )
            append(log, marker, epoch, coordinator=True)
            in_transaction.discard(producer)
            continue
        count = random.randrange(1, 4)
        records = [(NOW_MS, None, b"v" * random.randrange(40), ())] * count
        rest = {}
        if producer < 3:
            rest = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": sequences.get(producer, 0),
                "transactional": producer != 0,
            }
            sequences[producer] = sequences.get(producer, 0) + count
            if producer:
                in_transaction.add(producer)
        append(log, build_batch(records, **rest), epoch)


def append(log: Log, batch: bytearray, epoch: int, *, coordinator: bool = False) -> None:
    header = parse_header(batch)
    log.append_as_leader(batch, leader_epoch=epoch, header=header, coordinator=coordinator)


def all_bytes(log: Log) -> bytes:
    data, offset = b"", log.log_start_offset
    while (region := log.read(offset, 1 << 20, up_to=log.log_end_offset)) is not None:
        data += region.read()
        offset = region.end_offset
    return data


def facts(log: Log):
    """Everything that a new leader decides by."""
    log.check()
    log.high_watermark = log.log_end_offset
    return (
        all_bytes(log),
        log.log_end_offset,
        log.epochs.entries(),
        log.last_stable_offset,
        log.producers.open_transactions(),
        log.aborted_transactions(0, log.log_end_offset),
        sorted((each.producer_id, *each[1:4], each[6:]) for each in log.producers.to_snapshot()),
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_truncated_copy_is_as_if_the_rest_had_never_been(tmp_path, seed):
    random = Random(seed)
    leader = open_log(tmp_path / "leader")
    lead(leader, random, 60)
    data = all_bytes(leader)
    follower = open_log(tmp_path / "follower")
    follower.append_as_follower(data)
    assert facts(follower) == facts(leader)
    for round_number in range(3):
        starts = [(at, header.base_offset) for at, header in iterate_batches(data)]
        position, offset = random.choice(starts[: len(starts) * (3 - round_number) // 3 or 1])
        follower.truncate_to(offset)
        fresh = open_log(tmp_path / f"fresh-{round_number}")
        fresh.append_as_follower(data[:position])
        assert facts(follower) == facts(fresh)
        if random.random() < 0.5:
            # A crash right behind the truncation: what is found is the same.
            follower = open_log(tmp_path / "follower", recovery_point=follower.recovery_point)
            assert facts(follower) == facts(fresh)
        follower.append_as_follower(data[position:])
        assert facts(follower) == facts(leader)


def test_a_copy_never_takes_what_is_damaged_or_known_already(tmp_path):
    leader = open_log(tmp_path / "leader")
    lead(leader, Random(1), 5)
    data = bytearray(all_bytes(leader))
    follower = open_log(tmp_path / "follower")
    broken = bytearray(data)
    broken[-1] ^= 1
    with pytest.raises(CorruptMessage):
        follower.append_as_follower(broken)
    assert follower.log_end_offset == 0
    follower.append_as_follower(data)
    with pytest.raises(CorruptMessage):
        follower.append_as_follower(data)
    follower.append_as_follower(b"")
    assert all_bytes(follower) == data


def test_an_epoch_without_records_is_forgotten_by_a_truncation_to_the_end(tmp_path):
    log = open_log(tmp_path)
    lead(log, Random(1), 3)
    end = log.log_end_offset
    log.epochs.assign(9, end)  # as when the first batch of an epoch could not be written
    log.truncate_to(end)
    assert log.epochs.latest < 9


def test_an_empty_copy_may_begin_in_the_middle_of_a_batch(tmp_path):
    leader = open_log(tmp_path / "leader")
    append(leader, build_batch([(NOW_MS, None, b"v", ())] * 10), 1)
    append(leader, build_batch([(NOW_MS, None, b"w", ())]), 1)
    follower = open_log(tmp_path / "follower")
    follower.truncate_fully_to(6)  # where the leader begins, after records were deleted
    follower.append_as_follower(all_bytes(leader))
    assert (follower.log_start_offset, follower.log_end_offset) == (0, 11)
    follower.high_watermark = 11
    follower.delete_records(6)
    assert follower.read(6, 1000, up_to=11).read() == all_bytes(leader)


@pytest.mark.parametrize("follows", [True, False])
def test_a_disk_that_cannot_be_read_before_an_append_is_told_as_such(
    tmp_path, monkeypatch, follows
) -> None:
    """A log that was opened looks up when its segment began; nothing but an error of Kafka's may come out of that."""
    before = open_log(tmp_path / "log")
    append(before, build_batch([(NOW_MS, None, b"v", ())]), 0)
    before.close()
    log = open_log(tmp_path / "log")
    batch = bytearray(build_batch([(NOW_MS, None, b"w", ())]))
    batch[0:8] = (1).to_bytes(8, "big")

    def refuse(segment):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(Segment, "begin_timestamp", refuse)
    with pytest.raises(KafkaStorageError, match="failed: input/output error"):
        log.append_as_follower(batch) if follows else append(log, batch, 0)
    assert log.log_end_offset == 1
    assert log.failure is not None
