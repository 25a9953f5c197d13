import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.protocol.frame import encode_request
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec

LARGEST = 8192


def request(
    batch, *, topic="events", index=0, acks=1, version=9, correlation_id=1, client_id="c", **rest
):
    data = PartitionProduceData(index=index, records=batch)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    message = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics, **rest)
    return bytes(encode_request(message, version, correlation_id, client_id))


def batch(*values, timestamp=5, **rest):
    rows = [(timestamp + at, None, value, ()) for at, value in enumerate(values or (b"v",))]
    return bytes(build_batch(rows, **rest))


@st.composite
def usual(draw: st.DrawFn):
    """(frame, topic, index, acks, correlation id, batch, records, max timestamp, producer id)"""
    values = draw(st.lists(st.binary(max_size=300), min_size=1, max_size=5))
    timestamp = draw(st.integers(0, 2**40))
    codec = draw(st.sampled_from([Codec.NONE, Codec.GZIP, Codec.ZSTD]))
    producer_id = draw(st.integers(-1, 2**62))
    of = (
        {}
        if producer_id < 0
        else {"producer_epoch": 3, "base_sequence": draw(st.integers(0, 2**31 - 1))}
    )
    data = batch(*values, timestamp=timestamp, codec=codec, producer_id=producer_id, **of)
    facts = {
        "topic": draw(st.text("abcé", min_size=1, max_size=40)),
        "index": draw(st.integers(0, 2**31 - 1)),
        "acks": draw(st.sampled_from([1, 0, -1])),
        "correlation_id": draw(st.integers(-(2**31), 2**31 - 1)),
    }
    version, client_id = draw(st.integers(9, 12)), draw(st.none() | st.text(max_size=10))
    frame = request(data, version=version, client_id=client_id, **facts)
    return frame, *facts.values(), data, len(values), timestamp + len(values) - 1, producer_id


@given(st.lists(usual(), max_size=4), st.binary(max_size=20), st.integers(0, 50))
def test_a_run_is_told_frame_by_frame(kernel, frames, rest, before):
    buffer = bytes(before) + b"".join(each[0] for each in frames)
    found, stop = kernel.scan_produces(buffer + rest, before, len(buffer + rest), LARGEST)
    assert stop == len(buffer)
    assert len(found) == len(frames)
    for (place, correlation_id, acks, start, end, records, timestamp, of), told in zip(
        found, frames, strict=True
    ):
        _, topic, index, told_acks, told_id, data, count, newest, producer_id = told
        name = topic.encode()
        assert place == bytes([len(name) + 1]) + name + b"\x02" + struct.pack(">i", index)
        assert (correlation_id, acks, records, timestamp) == (told_id, told_acks, count, newest)
        assert buffer[start:end] == data
        assert of == producer_id


def tampered(frame: bytes, at: int) -> bytes:
    return frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]


UNUSUAL = {
    "unknown acks": request(batch(), acks=2),
    "old": request(batch(), version=8),
    "transactional": request(batch(), transactional_id="t"),
    "a producer without an epoch": request(batch(producer_id=1, base_sequence=0)),
    "a producer without a sequence": request(batch(producer_id=1, producer_epoch=0)),
    "a control batch": request(batch(control=True)),
    "two batches": request(batch() + batch()),
    "no batch": request(None),
    "an empty batch": request(b""),
    "a gap in the offsets": request(batch(b"a", b"b", offset_deltas=[0, 2])),
    "a wrong CRC": tampered(request(batch()), -5),
    "large": request(batch(bytes(LARGEST))),
    "a long name": request(batch(), topic="x" * 200),
    "no name": request(batch(), topic=""),
    "another API": b"\x00\x00\x00\x60\x00\x01" + request(batch())[6:],
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_anything_unusual_ends_the_run(kernel, name):
    first = request(batch())
    buffer = first + UNUSUAL[name] + first
    found, stop = kernel.scan_produces(buffer, 0, len(buffer), LARGEST)
    assert (len(found), stop) == (1, len(first))


def test_several_partitions_or_topics_end_the_run(kernel):
    parts = [PartitionProduceData(index=at, records=batch()) for at in range(2)]
    for topics in (
        [TopicProduceData(name="t", partition_data=parts)],
        [TopicProduceData(name=name, partition_data=parts[:1]) for name in "ab"],
    ):
        message = ProduceRequest(acks=1, timeout_ms=1, topic_data=topics)
        frame = bytes(encode_request(message, 9, 1, "c"))
        assert kernel.scan_produces(frame, 0, len(frame), LARGEST) == ([], 0)


def test_a_frame_that_is_cut_off_is_not_told(kernel):
    frame = request(batch(b"x" * 200))
    for end in range(len(frame)):
        assert kernel.scan_produces(frame, 0, end, LARGEST) == ([], 0)
        assert kernel.scan_produces(frame[:end], 0, end, LARGEST) == ([], 0)
    assert kernel.scan_produces(frame, 0, len(frame) + 1, LARGEST) == ([], 0)
    assert kernel.scan_produces(frame, -1, len(frame), LARGEST) == ([], -1)


@given(st.data())
def test_garbage_only_ends_the_run(kernel, data):
    frame = bytearray(request(batch(b"x" * 60)))
    for _ in range(data.draw(st.integers(1, 6))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    found, stop = kernel.scan_produces(frame, 0, len(frame), LARGEST)
    assert stop == (len(frame) if found else 0)


@given(st.binary(max_size=300))
def test_noise_is_no_run(kernel, noise):
    assert kernel.scan_produces(noise, 0, len(noise), LARGEST) == ([], 0)
