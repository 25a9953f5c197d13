"""A member of a KIP-848 group: a value; a change makes a new one."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any
from uuid import UUID

from tidelog.coordination.groups.assignors.spec import Assignment
from tidelog.coordination.groups.records import Change
from tidelog.coordination.groups.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    CurrentTopicPartitions,
)
from tidelog.coordination.groups.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from tidelog.dataclass import dataclass

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
"""The static member means to come back within its session timeout."""


class MemberState(IntEnum):
    """Where a member is on its way to its target; the numbers are stored."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It must give up partitions before it gets its next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It has the epoch, but others have yet to give up partitions of its target."""


@dataclass(frozen=True, slots=True)
class Member:
    """What a member said of itself, and what it owns."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    """Sorted."""
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None

    epoch: int = 0
    """The epoch that the next heartbeat must name.  Invariant: at most the assignment epoch."""
    previous_epoch: int = -1
    """Accepted too: the answer that raised the epoch may have been lost."""
    state: MemberState = MemberState.STABLE
    assigned: Assignment = frozenset()
    revoking: Assignment = frozenset()
    """Still owned, until the member confirms.  Invariant: disjoint from `assigned`."""

    def metadata_record(self, group_id: str) -> Change:
        return Change(
            ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=self.member_id),
            ConsumerGroupMemberMetadataValue(
                instance_id=self.instance_id,
                rack_id=self.rack_id,
                client_id=self.client_id,
                client_host=self.client_host,
                subscribed_topic_names=list(self.topic_names),
                subscribed_topic_regex=self.topic_regex,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                server_assignor=self.server_assignor,
            ),
        )

    def assignment_record(self, group_id: str) -> Change:
        return Change(
            ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=self.member_id),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=self.epoch,
                previous_member_epoch=self.previous_epoch,
                state=int(self.state),
                assigned_partitions=by_topic(self.assigned, CurrentTopicPartitions),
                partitions_pending_revocation=by_topic(self.revoking, CurrentTopicPartitions),
            ),
        )


def by_topic(places: Assignment, struct: Any) -> list[Any]:
    """Places grouped by topic id, in the struct that a message or record has for it."""
    grouped: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(places, key=lambda each: (each[0].bytes, each[1])):
        grouped.setdefault(topic_id, []).append(index)
    return [struct(topic_id=topic_id, partitions=found) for topic_id, found in grouped.items()]


def places_of(topics: Iterable[Any]) -> Assignment:
    """The reverse of `by_topic`."""
    return frozenset((each.topic_id, index) for each in topics for index in each.partitions)
