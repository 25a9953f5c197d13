"""Bytes laid out by hand, tags, nulls, and lengths that lie."""

import pytest

from tidelog.errors import ProtocolError
from tidelog.kernel import write_uvarint
from tidelog.protocol.codec import decode, decoder, encode, encoder
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.protocol.schema import Request

BEAT = HeartbeatRequest(group_id="grp", generation_id=5, member_id="m-1")


@pytest.mark.parametrize(
    ("version", "raw"),
    [
        (0, b"\0\3grp\0\0\0\5\0\3m-1"),
        (3, b"\0\3grp\0\0\0\5\0\3m-1\xff\xff"),
        (4, b"\4grp\0\0\0\5\4m-1\0\0"),
    ],
)
def test_a_heartbeat(version: int, raw: bytes) -> None:
    assert encode(BEAT, version) == raw
    assert decode(HeartbeatRequest, raw, 0, version) == (BEAT, len(raw))


@pytest.mark.parametrize(
    ("version", "topics", "raw"),
    [
        (0, [], b"\0\0\0\0"),
        (1, None, b"\xff\xff\xff\xff"),
        (1, [], b"\0\0\0\0"),
        (1, ["a"], b"\0\0\0\1\0\1a"),
    ],
)
def test_null_and_empty_topics_differ(version: int, topics: list[str] | None, raw: bytes) -> None:
    request = MetadataRequest(
        topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    )
    assert encode(request, version) == raw
    assert decode(MetadataRequest, raw, 0, version)[0] == request


def test_null_where_it_is_not_allowed_is_refused() -> None:
    with pytest.raises(ProtocolError, match="MetadataRequest v0: a length of -1"):
        decode(MetadataRequest, b"\xff\xff\xff\xff", 0, 0)
    with pytest.raises(ProtocolError):
        decode(HeartbeatRequest, b"\0" + bytes(20), 0, 4)


def test_unknown_tags_are_skipped() -> None:
    raw = b"\4grp\0\0\0\5\4m-1\0\2\7\3abc\x80\x01\0"
    assert decode(HeartbeatRequest, raw, 0, 4) == (BEAT, len(raw))


@pytest.mark.parametrize(
    "tags", [b"\1\7\4abc", b"\2\7\3abc", b"\1\7", b"\x80", b"\1\7\xff\xff\xff\xff\x0f"]
)
def test_tags_that_run_off_the_end_are_refused(tags: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(HeartbeatRequest, b"\4grp\0\0\0\5\4m-1\0" + tags, 0, 4)


def test_tags_count_as_elements_of_a_request() -> None:
    most = HeartbeatRequest.most
    body = bytes(encode(HeartbeatRequest(), 4))[:-1]
    decode(HeartbeatRequest, body + _uvarint(most) + b"\x63\0" * most, 0, 4)
    more = body + _uvarint(most + 1) + b"\x63\0" * (most + 1)
    with pytest.raises(ProtocolError, match="elements"):
        decode(HeartbeatRequest, more, 0, 4)


def test_null_makes_no_room_for_more_elements() -> None:
    topics = [
        ReassignableTopic(
            name="t",
            partitions=[ReassignablePartition(partition_index=0, replicas=None)] * 1_000,
        )
    ] * 1_000
    raw = encode(AlterPartitionReassignmentsRequest(topics=topics), 0)
    with pytest.raises(ProtocolError, match="elements"):
        decode(AlterPartitionReassignmentsRequest, raw, 0, 0)


CONFIGS = 6
LARGE_AND_LEGAL = [
    (
        CreateTopicsRequest(
            topics=[CreatableTopic(name="t", configs=[CreatableTopicConfig()] * CONFIGS)] * 4_000
        ),
        7,
    ),
    (
        IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(configs=[AlterableConfig()] * CONFIGS)] * 4_000
        ),
        1,
    ),
    (
        AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name="t",
                    partitions=[ReassignablePartition(partition_index=0, replicas=[1, 2, 3])],
                )
            ]
            * 10_000
        ),
        0,
    ),
    (FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition()])] * 20_000), 12),
]


@pytest.mark.parametrize(
    ("request_", "version"),
    LARGE_AND_LEGAL,
    ids=[type(each).__name__ for each, _ in LARGE_AND_LEGAL],
)
def test_what_an_administrator_or_a_follower_of_many_topics_asks_for_is_taken(
    request_: Request, version: int
) -> None:
    raw = encode(request_, version)
    assert decode(type(request_), raw, 0, version) == (request_, len(raw))


def test_a_known_tag_must_have_the_size_it_says() -> None:
    request = FetchRequest(replica_state=ReplicaState(replica_id=1, replica_epoch=2))
    raw = encode(request, 15)
    assert raw.endswith(b"\1\1\x0d" + b"\0\0\0\1" + b"\0\0\0\0\0\0\0\2" + b"\0")
    raw[-14] += 1
    with pytest.raises(ProtocolError, match="tag 1 has a wrong size"):
        decode(FetchRequest, raw + b"\0", 0, 15)


def test_default_tags_are_not_sent() -> None:
    silent, loud = PartitionData(), PartitionData(current_leader=LeaderIdAndEpoch(leader_id=3))
    sizes = [
        len(encode(FetchResponse(responses=[FetchableTopicResponse(partitions=[data])]), 12))
        for data in (silent, loud)
    ]
    assert sizes[1] - sizes[0] == 2 + 9  # tag, size; two int32 and an empty set of tags


def test_a_nullable_struct_is_led_by_a_byte() -> None:
    absent = ConsumerGroupHeartbeatResponse()
    present = ConsumerGroupHeartbeatResponse(
        assignment=Assignment(topic_partitions=[TopicPartitions(partitions=[1, 2])])
    )
    assert encode(absent, 0).endswith(b"\xff\0")
    for message in (absent, present):
        assert decode(ConsumerGroupHeartbeatResponse, encode(message, 0), 0, 0)[0] == message


def test_fields_absent_from_a_version_keep_their_defaults() -> None:
    request = FetchRequest(session_id=9, rack_id="r", max_wait_ms=1)
    seen, _ = decode(FetchRequest, encode(request, 4), 0, 4)
    assert (seen.max_wait_ms, seen.session_id, seen.rack_id) == (1, 0, "")


def test_records_are_a_slice_of_the_frame() -> None:
    request = ProduceRequest(
        topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records=b"batch")])]
    )
    frame = encode(request, 9)
    seen, _ = decode(ProduceRequest, memoryview(frame), 0, 9)
    records = seen.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    frame[frame.index(b"batch")] = ord("B")
    assert records == b"Batch"


def test_text_must_be_utf8() -> None:
    with pytest.raises(ProtocolError, match="not UTF-8"):
        decode(HeartbeatRequest, b"\0\3\xff\xfe\xfd\0\0\0\5\0\0", 0, 0)


def test_errors_name_the_message_and_version() -> None:
    with pytest.raises(ProtocolError, match="HeartbeatRequest v2 ends too early"):
        decode(HeartbeatRequest, b"\0", 0, 2)


def test_a_version_that_does_not_exist_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="has versions 0-4, not 5"):
        encode(BEAT, 5)
    with pytest.raises(ValueError, match="has versions 0-4, not -1"):
        decode(HeartbeatRequest, b"", 0, -1)


def test_code_is_generated_once() -> None:
    assert encoder(ApiVersionsRequest, 3) is encoder(ApiVersionsRequest, 3)
    assert decoder(ApiVersionsRequest, 3) is decoder(ApiVersionsRequest, 3)
    assert decoder(ApiVersionsRequest, 3) is not decoder(ApiVersionsRequest, 4)


def test_an_array_longer_than_the_frame_can_hold_is_refused_at_once() -> None:
    head = encode(FetchRequest(), 4)[:-4]
    # Each topic takes six bytes at least (a length of two, a count of four): eighteen bytes hold three of them.
    for count, wanted in ((3, "ends too early|a length"), (4, "a length of 4 with 18 bytes left")):
        frame = bytes(head) + count.to_bytes(4, "big") + b"\0" * 5 + b"\xff" * 13
        with pytest.raises(ProtocolError, match=wanted):
            decode(FetchRequest, frame, 0, 4)


def _uvarint(value: int) -> bytes:
    out = bytearray()
    write_uvarint(out, value)
    return bytes(out)
