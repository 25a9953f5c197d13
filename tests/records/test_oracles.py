"""Batches written by kafka-python and aiokafka are read by us, and ours by them."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaBuilder

from tidelog.kernel import check_batch
from tidelog.records import Codec, build_batch, parse_header, read_records

BUILDERS = {"kafka-python": KafkaBuilder, "aiokafka": AioBuilder}
READERS = {"kafka-python": KafkaBatch, "aiokafka": AioBatch}

maybe_bytes = st.none() | st.binary(max_size=300)
rows = st.lists(
    st.tuples(
        st.integers(0, 2**42),
        maybe_bytes,
        maybe_bytes,
        st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("peer", list(BUILDERS))
@settings(max_examples=25)
@given(rows=rows, transactional=st.booleans())
def test_their_batches_are_read(peer, codec, rows, transactional):
    builder = BUILDERS[peer](
        magic=2,
        compression_type=int(codec),
        is_transactional=int(transactional),
        producer_id=11,
        producer_epoch=3,
        base_sequence=5,
        batch_size=1 << 20,
    )
    for index, (timestamp, key, value, headers) in enumerate(rows):
        assert builder.append(index, timestamp, key, value, headers) is not None
    batch = bytes(builder.build())
    header = parse_header(batch)
    assert check_batch(batch, 0, len(batch)) == header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (11, 3, 5)
    assert header.is_transactional == transactional
    assert header.last_sequence == 5 + len(rows) - 1
    assert [tuple(record) for record in read_records(batch)] == [
        (index, timestamp, key, value, tuple(map(tuple, headers)))
        for index, (timestamp, key, value, headers) in enumerate(rows)
    ]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("peer", list(READERS))
@settings(max_examples=25)
@given(rows=rows, appended=st.none() | st.integers(0, 2**42))
def test_our_batches_are_read_by_them(peer, codec, rows, appended):
    batch = build_batch(
        rows, base_offset=100, leader_epoch=4, codec=codec, producer_id=8, log_append_time=appended
    )
    theirs = READERS[peer](bytes(batch))
    assert theirs.validate_crc()
    found = list(theirs)
    assert [
        (
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            [tuple(h) for h in record.headers],
        )
        for record in found
    ] == [
        (100 + index, timestamp if appended is None else appended, key, value, headers)
        for index, (timestamp, key, value, headers) in enumerate(rows)
    ]
    assert {record.timestamp_type for record in found} == {0 if appended is None else 1}
    assert [tuple(record)[:4] for record in read_records(batch)] == [
        (record.offset, record.timestamp, record.key, record.value) for record in found
    ]


@pytest.mark.parametrize("builder", list(BUILDERS.values()), ids=list(BUILDERS))
@given(rows=rows)
def test_uncompressed_batches_are_the_same_bytes(builder, rows):
    theirs = builder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=1,
        producer_epoch=2,
        base_sequence=3,
        batch_size=1 << 20,
    )
    for index, (timestamp, key, value, headers) in enumerate(rows):
        theirs.append(index, timestamp, key, value, headers)
    expected = parse_header(bytes(theirs.build()))
    ours = build_batch(rows, producer_id=1, producer_epoch=2, base_sequence=3)
    assert parse_header(ours)._replace(leader_epoch=0) == expected._replace(leader_epoch=0)
