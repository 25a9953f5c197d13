import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import ProtocolError
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

int8, int16 = st.integers(-128, 127), st.integers(-(2**15), 2**15 - 1)
int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=10)
ids = st.uuids()

produce_requests = st.builds(
    ProduceRequest,
    transactional_id=st.none() | texts,
    acks=int16,
    timeout_ms=int32,
    topic_data=st.lists(
        st.builds(
            TopicProduceData,
            name=texts,
            partition_data=st.lists(
                st.builds(
                    PartitionProduceData, index=int32, records=st.none() | st.binary(max_size=200)
                ),
                max_size=3,
            ),
        ),
        max_size=3,
    ),
)


@st.composite
def fetch_requests(draw: st.DrawFn) -> tuple[FetchRequest, int]:
    """A request with the fields that its version has."""
    version = draw(st.integers(12, 17))
    named = {"topic": texts} if version == 12 else {"topic_id": ids}
    directory = {"replica_directory_id": ids} if version >= 17 else {}
    replica = (
        {"replica_id": int32}
        if version < 15
        else {"replica_state": st.builds(ReplicaState, replica_id=int32, replica_epoch=int64)}
    )
    partition = st.builds(
        FetchPartition,
        partition=int32,
        current_leader_epoch=int32,
        fetch_offset=int64,
        last_fetched_epoch=int32,
        log_start_offset=int64,
        partition_max_bytes=int32,
        **directory,
    )
    request = st.builds(
        FetchRequest,
        cluster_id=st.none() | texts,
        max_wait_ms=int32,
        min_bytes=int32,
        max_bytes=int32,
        isolation_level=int8,
        session_id=int32,
        session_epoch=int32,
        topics=st.lists(
            st.builds(FetchTopic, partitions=st.lists(partition, max_size=3), **named), max_size=3
        ),
        forgotten_topics_data=st.lists(
            st.builds(ForgottenTopic, partitions=st.lists(int32, max_size=3), **named), max_size=3
        ),
        rack_id=texts,
        **replica,
    )
    return draw(request), version


def produce_parts(request: ProduceRequest) -> tuple:
    """What the kernel should find, with the records in place of their positions."""
    return (
        request.transactional_id,
        request.acks,
        request.timeout_ms,
        [
            (
                topic.name,
                [
                    (part.index, None if part.records is None else bytes(part.records))
                    for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ],
    )


def fetch_parts(request: FetchRequest, version: int) -> tuple:
    """What the kernel should find."""

    def name(topic: FetchTopic | ForgottenTopic) -> str | bytes:
        return topic.topic if version == 12 else topic.topic_id.bytes

    state = request.replica_state
    return (
        request.replica_id if version < 15 else state.replica_id,
        state.replica_epoch,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        [
            (
                name(topic),
                [
                    (
                        part.partition,
                        part.current_leader_epoch,
                        part.fetch_offset,
                        part.last_fetched_epoch,
                        part.log_start_offset,
                        part.partition_max_bytes,
                        part.replica_directory_id.bytes,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        [(name(topic), topic.partitions) for topic in request.forgotten_topics_data],
        request.rack_id,
        request.cluster_id,
    )


def with_records(frame: bytes, parts: tuple) -> tuple:
    """The kernel's finding with positions turned into the bytes that are there."""
    topics = [
        (
            name,
            [
                (index, None if start < 0 else bytes(frame[start:end]))
                for index, start, end in partitions
            ],
        )
        for name, partitions in parts[3]
    ]
    return (*parts[:3], topics)


@given(request=produce_requests, version=st.integers(9, 12), before=st.binary(max_size=9))
def test_produce_is_decoded_as_the_codec_does(kernel, request, version, before):
    frame = before + encode(request, version)
    found = with_records(frame, kernel.decode_produce(memoryview(frame), len(before), version))
    assert found == produce_parts(request)
    decoded, _ = decode(ProduceRequest, memoryview(frame), len(before), version)
    assert found == produce_parts(decoded)


@given(pair=fetch_requests(), before=st.binary(max_size=9))
def test_fetch_is_decoded_as_the_codec_does(kernel, pair, before):
    request, version = pair
    frame = before + encode(request, version)
    found = kernel.decode_fetch(frame, len(before), version)
    assert found == fetch_parts(request, version)
    decoded, _ = decode(FetchRequest, frame, len(before), version)
    assert found == fetch_parts(decoded, version)


@given(
    request=produce_requests,
    changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.integers(0, 20),
)
def test_damaged_produce_requests_agree_with_the_codec(kernel, request, changes, cut):
    frame = encode(request, 9)
    for place, byte in changes:
        frame[place % len(frame)] = byte
    frame = frame[: len(frame) - cut]
    try:
        found = with_records(frame, kernel.decode_produce(frame, 0, 9))
    except ProtocolError:
        return
    decoded, _ = decode(ProduceRequest, bytes(frame), 0, 9)
    assert found == produce_parts(decoded)


@given(
    pair=fetch_requests(),
    changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.integers(0, 20),
)
def test_damaged_fetch_requests_agree_with_the_codec(kernel, pair, changes, cut):
    request, version = pair
    frame = encode(request, version)
    for place, byte in changes:
        frame[place % len(frame)] = byte
    frame = frame[: len(frame) - cut]
    try:
        found = kernel.decode_fetch(frame, 0, version)
    except ProtocolError:
        return
    decoded, _ = decode(FetchRequest, bytes(frame), 0, version)
    assert found == fetch_parts(decoded, version)


@given(data=st.binary(max_size=100), version=st.integers(9, 12), pos=st.integers(-3, 110))
def test_random_bytes_are_refused(kernel, data, version, pos):
    for call in (
        lambda: kernel.decode_produce(data, pos, version),
        lambda: kernel.decode_fetch(data, pos, version + 3),
    ):
        with contextlib.suppress(ProtocolError):
            call()


def test_unknown_tags_are_skipped(kernel):
    plain = encode(FetchRequest(rack_id="r"), 17)
    assert plain[-1] == 0
    tagged = plain[:-1] + bytes.fromhex("02 05 03 616263 40 00".replace(" ", ""))
    assert kernel.decode_fetch(tagged, 0, 17) == kernel.decode_fetch(plain, 0, 17)
    plain = encode(ProduceRequest(), 9)
    assert kernel.decode_produce(plain[:-1] + b"\x01\x07\x02ab", 0, 9) == (None, 0, 0, [])


@pytest.mark.parametrize(
    "tail",
    [
        "ffffffff0f",  # four thousand million topics
        "00",  # null topics
        "0200",  # a null topic name
        "0203ff",  # a name that is cut off
        "0202ff0100",  # a name that is not UTF-8
        "02026102" + "00000000" + "ffffffff0f",  # records of four gigabytes
        "0100ff",  # nothing, good, and a byte that is ignored
    ],
)
def test_forged_produce_requests(kernel, tail):
    frame = bytes.fromhex("00" + "ffff" + "00000000" + tail)
    if tail == "0100ff":
        assert kernel.decode_produce(frame, 0, 9) == (None, -1, 0, [])
    else:
        with pytest.raises(ProtocolError):
            kernel.decode_produce(frame, 0, 9)


def test_versions_without_a_decoder_are_a_mistake_of_the_caller(kernel):
    for version in (8, 13):
        with pytest.raises(ValueError):
            kernel.decode_produce(b"", 0, version)
    for version in (11, 18):
        with pytest.raises(ValueError):
            kernel.decode_fetch(b"", 0, version)
