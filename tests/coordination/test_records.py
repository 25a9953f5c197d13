"""The records of `__consumer_offsets`, byte by byte, and what is done with bytes that are not ours."""

import contextlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordination.groups.records import (
    Change,
    decode_change,
    encode_change,
    record_types,
)
from tidelog.coordination.groups.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    CurrentTopicPartitions,
)
from tidelog.coordination.groups.records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from tidelog.coordination.groups.records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from tidelog.coordination.groups.records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    TopicMetadata,
)
from tidelog.coordination.groups.records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TargetTopicPartition,
)
from tidelog.coordination.groups.records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tidelog.coordination.groups.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from tidelog.coordination.groups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tidelog.errors import ProtocolError

TOPIC = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
TOPIC_HEX = "000102030405060708090a0b0c0d0e0f"

SAMPLES = [
    (
        Change(
            OffsetCommitKey(group="g", topic="t", partition=3),
            OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9),
        ),
        "0001 0001 67 0001 74 00000003",
        "0003 0000000000000005 00000002 0001 6d 0000000000000009",
    ),
    (
        Change(
            OffsetCommitKey(group="g", topic="t", partition=3),
            OffsetCommitValue(offset=5, metadata="", commit_timestamp=9, expire_timestamp=10),
        ),
        "0001 0001 67 0001 74 00000003",
        "0001 0000000000000005 0000 0000000000000009 000000000000000a",
    ),
    (
        Change(
            GroupMetadataKey(group="g"),
            GroupMetadataValue(
                protocol_type="consumer",
                generation=7,
                protocol="range",
                leader="a",
                current_state_timestamp=1,
                members=[
                    MemberMetadata(
                        member_id="a",
                        client_id="c",
                        client_host="/h",
                        rebalance_timeout=16,
                        session_timeout=17,
                        subscription=b"\x01",
                        assignment=b"\x02\x03",
                    )
                ],
            ),
        ),
        "0002 0001 67",
        "0003 0008 636f6e73756d6572 00000007 0005 72616e6765 0001 61 0000000000000001 00000001"
        " 0001 61 ffff 0001 63 0002 2f68 00000010 00000011 00000001 01 00000002 0203",
    ),
    (
        Change(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=4)),
        "0003 0001 67",
        "0000 00000004 00",
    ),
    (
        Change(
            ConsumerGroupPartitionMetadataKey(group_id="g"),
            ConsumerGroupPartitionMetadataValue(
                topics=[TopicMetadata(topic_id=TOPIC, topic_name="t", num_partitions=2)]
            ),
        ),
        "0004 0001 67",
        f"0000 02 {TOPIC_HEX} 02 74 00000002 01 00 00",
    ),
    (
        Change(
            ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
            ConsumerGroupMemberMetadataValue(
                instance_id="i",
                client_id="c",
                client_host="h",
                subscribed_topic_names=["t"],
                rebalance_timeout_ms=8,
                classic_member_metadata=ClassicMemberMetadata(
                    session_timeout_ms=9,
                    supported_protocols=[ClassicProtocol(name="r", metadata=b"\x01")],
                ),
            ),
        ),
        "0005 0001 67 0001 6d",
        # instance, no rack, client, host, names, no pattern, timeout, no assignor; then tag 0 of 12 bytes
        "0000 02 69 00 02 63 02 68 02 02 74 00 00000008 00 01 00 0c 01 00000009 02 02 72 02 01 00 00",
    ),
    (
        Change(
            ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
            ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4),
        ),
        "0006 0001 67",
        "0000 00000004 00",
    ),
    (
        Change(
            ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
            ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[TargetTopicPartition(topic_id=TOPIC, partitions=[1])]
            ),
        ),
        "0007 0001 67 0001 6d",
        f"0000 02 {TOPIC_HEX} 02 00000001 00 00",
    ),
    (
        Change(
            ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=4,
                previous_member_epoch=3,
                state=1,
                assigned_partitions=[CurrentTopicPartitions(topic_id=TOPIC, partitions=[1])],
            ),
        ),
        "0008 0001 67 0001 6d",
        f"0000 00000004 00000003 01 02 {TOPIC_HEX} 02 00000001 00 01 00",
    ),
]


def test_there_is_a_sample_of_every_type():
    assert {type(change.key) for change, _, _ in SAMPLES} == {kind.key for kind in record_types()}


@pytest.mark.parametrize(("change", "key", "value"), SAMPLES, ids=lambda each: "")
def test_bytes(change, key, value):
    assert encode_change(change) == (bytes.fromhex(key), bytes.fromhex(value))
    assert decode_change(bytes.fromhex(key), bytes.fromhex(value)) == change
    gone = Change(change.key, None)
    assert decode_change(*encode_change(gone)) == gone


def test_old_layouts_are_read():
    key = bytes.fromhex("0000 0001 67 0001 74 00000003")
    value = bytes.fromhex("0000 0000000000000005 0001 6d 0000000000000009")
    change = decode_change(key, value)
    assert change is not None
    assert change.value == OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9)


def test_unknown_types_are_skipped_and_unknown_versions_refused():
    assert decode_change(bytes.fromhex("0010 0001 67"), b"\0\0") is None
    with pytest.raises(ProtocolError):
        decode_change(bytes.fromhex("0003 0001 67"), bytes.fromhex("0001 00000004 00"))


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_garbage_raises_protocol_error_alone(key, value):
    with contextlib.suppress(ProtocolError):
        decode_change(key, value)
