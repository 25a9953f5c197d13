import pytest
from kafka.record.default_records import DefaultRecordBatch

from tidelog.errors import InvalidRecord
from tidelog.kernel import check_batch
from tidelog.records import build_batch, parse_header, read_records
from tidelog.records.control import EndTransactionMarker, control_type, parse_marker, read_marker


@pytest.mark.parametrize("commit", [True, False])
def test_markers_come_back(commit):
    marker = EndTransactionMarker(commit=commit, coordinator_epoch=7)
    batch = marker.build(
        producer_id=5, producer_epoch=2, timestamp_ms=1000, base_offset=40, leader_epoch=3
    )
    header = parse_header(batch)
    assert check_batch(batch, 0, len(batch)) == header
    assert header.attributes == 0x30
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, -1)
    assert read_marker(batch) == marker
    (record,) = read_records(batch)
    assert record.key == bytes([0, 0, 0, commit])
    assert record.value == bytes([0, 0, 0, 0, 0, 7])
    assert DefaultRecordBatch(bytes(batch)).is_control_batch


def test_other_batches_have_no_marker():
    assert read_marker(build_batch([(1, b"k", b"v", ())])) is None
    assert parse_marker(bytes([0, 0, 0, 2]), b"") is None  # a leader change of Kafka's quorum


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0\0", b""),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
        (b"\xff\xff\0\1", bytes(6)),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\0"),
    ],
)
def test_damaged_markers_are_invalid(key, value):
    with pytest.raises(InvalidRecord):
        parse_marker(key, value)


def test_the_type_of_a_control_record():
    assert control_type(bytes([0, 0, 0, 1])) == 1
