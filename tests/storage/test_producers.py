"""Sequences, epochs, duplicates, transactions and snapshots of producers."""

import pytest

from tidelog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from tidelog.records.batch import parse_header
from tidelog.records.control import EndTransactionMarker
from tidelog.storage.snapshots import (
    CorruptSnapshot,
    SnapshotEntry,
    decode_snapshot,
    encode_snapshot,
)

LAST = (1 << 31) - 1


def send(bench, log, sequence, count=1, epoch=0, **options):
    return bench.append(
        log,
        [b"v"] * count,
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
        **options,
    )


def test_a_repeated_batch_is_answered_with_its_first_offsets(bench):
    log = bench.open()
    first = [send(bench, log, i * 3, 3) for i in range(5)]
    for number, original in enumerate(first):
        again = send(bench, log, number * 3, 3)
        assert again.duplicate
        assert again[:2] == original[:2]
    assert log.log_end_offset == 15


def test_only_five_batches_are_remembered(bench):
    log = bench.open()
    for i in range(6):
        send(bench, log, i)
    with pytest.raises(OutOfOrderSequenceNumber):
        send(bench, log, 0)
    assert send(bench, log, 1).duplicate


@pytest.mark.parametrize("sequence", [0, 2, 7])
def test_a_gap_is_refused(bench, sequence):
    log = bench.open()
    for i in range(3):
        send(bench, log, i * 10, 10)
    with pytest.raises(OutOfOrderSequenceNumber):
        send(bench, log, 30 + sequence + 1, 1)
    with pytest.raises(OutOfOrderSequenceNumber):
        send(bench, log, 5, 5)
    assert log.log_end_offset == 30


def test_sequences_wrap(bench):
    log = bench.open()
    send(bench, log, LAST - 1, 2)
    send(bench, log, 0)
    log = bench.open()
    original = send(bench, log, 1, 3)
    assert send(bench, log, 1, 3)[:2] == original[:2]


def test_a_batch_may_wrap_inside(bench):
    log = bench.open()
    original = send(bench, log, LAST - 1, 5)
    assert send(bench, log, LAST - 1, 5)[:2] == original[:2]
    send(bench, log, 3)


def test_an_unknown_producer_may_begin_anywhere(bench):
    assert send(bench, bench.open(), 4711).base_offset == 0


def test_a_new_epoch_begins_at_zero_and_fences_the_old(bench):
    log = bench.open()
    send(bench, log, 0)
    with pytest.raises(OutOfOrderSequenceNumber):
        send(bench, log, 1, epoch=1)
    send(bench, log, 0, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        send(bench, log, 1, epoch=0)


def test_silent_producers_expire(bench, clock):
    log = bench.open()
    send(bench, log, 0)
    clock.advance(86_400_000)
    assert log.expire_producers() == [7]
    send(bench, log, 99)


def test_the_stable_offset_waits_for_open_transactions(bench):
    log = bench.open()
    bench.append(log, [b"plain"])
    send(bench, log, 0, transactional=True)
    bench.append(log, [b"plain"])
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    bench.marker(log, 7, commit=True)
    assert log.last_stable_offset == 4
    assert log.aborted_transactions(0, 4) == []


def test_a_marker_counts_when_it_is_committed(bench):
    log = bench.open()
    send(bench, log, 0, transactional=True)
    data = EndTransactionMarker(commit=False, coordinator_epoch=3).build(
        producer_id=7, producer_epoch=0, timestamp_ms=1
    )
    log.append_as_leader(data, leader_epoch=0, header=parse_header(data), coordinator=True)
    assert log.last_stable_offset == 0
    log.high_watermark = 2
    assert log.last_stable_offset == 2
    assert log.aborted_transactions(0, 2) == [(7, 0)]
    assert log.aborted_transactions(2, 9) == []
    old = EndTransactionMarker(commit=False, coordinator_epoch=2).build(
        producer_id=7, producer_epoch=0, timestamp_ms=1
    )
    with pytest.raises(TransactionCoordinatorFenced):
        log.append_as_leader(old, leader_epoch=0, header=parse_header(old), coordinator=True)


def test_no_plain_batch_inside_a_transaction(bench):
    log = bench.open()
    send(bench, log, 0, transactional=True)
    with pytest.raises(InvalidTxnState):
        send(bench, log, 1)


@pytest.mark.parametrize("clean", [True, False])
def test_state_survives_a_restart(bench, clean):
    log = bench.open(segment_bytes=300)
    for i in range(6):
        send(bench, log, i, transactional=True)
    log = bench.reopen_clean(log) if clean else bench.open()
    assert log.last_stable_offset == 0
    assert send(bench, log, 5, transactional=True).duplicate
    send(bench, log, 6, transactional=True)
    bench.marker(log, 7, commit=False)
    assert log.last_stable_offset == 8
    assert log.aborted_transactions(3, 8) == [(7, 0)]


@pytest.mark.parametrize("clean", [True, False])
def test_every_batch_on_its_way_is_recognised_after_a_restart(bench, clean):
    """A client may have five batches on their way; all of them come again when their answers were lost."""
    log = bench.open()
    first = [send(bench, log, i * 3, 3) for i in range(5)]
    log = bench.reopen_clean(log) if clean else bench.open()
    for number, original in enumerate(first):
        again = send(bench, log, number * 3, 3)
        assert again.duplicate
        assert again[:2] == original[:2]
    assert send(bench, log, 15).base_offset == 15


def test_truncation_takes_producers_back(bench):
    log = bench.open(segment_bytes=300)
    for i in range(8):
        send(bench, log, i)
    log.truncate_to(5)
    assert send(bench, log, 5).base_offset == 5


def test_snapshots_are_kafkas_bytes():
    entry = SnapshotEntry(1, 2, 3, 4, 5, 6, 7, -1)
    data = encode_snapshot([entry])
    assert data[:2] == b"\x00\x01"
    assert data[6:10] == b"\x00\x00\x00\x01"
    assert len(data) == 10 + 46
    assert decode_snapshot(data) == [entry]
    for broken in (data[:5], data[:-1], b"\x00\x02" + data[2:], data[:-1] + b"\x00"):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(broken)


@pytest.mark.parametrize("damage", [None, "inside", "length"])
def test_producers_are_found_behind_large_and_damaged_batches(bench, damage, caplog):
    """By headers alone, without the index."""
    log = bench.open()
    sizes = [10, (1 << 20) + 5000, 10, 70_000, 10]
    for sequence, size in enumerate(sizes):
        numbers = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
        bench.append(log, [bytes(size)], **numbers)
    bench.append(log, [b"cut off"])
    positions = [log.segments[0].find(offset).position for offset in range(5)]
    file = log.segments[0].file()
    if damage == "inside":
        file.pwrite(b"\xff" * 8, positions[2] + 65)
    elif damage == "length":
        file.pwrite(b"\x7f\xff\xff\xff", positions[3] + 8)
    log.truncate_to(5)
    assert log.producers.by_id[7].last_sequence == (2 if damage == "length" else 4)
    assert ("not known" in caplog.text) == (damage == "length")
