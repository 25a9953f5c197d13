"""A KIP-848 group: its epochs, members, target and current assignment.  Changed only by `replay`.

The group epoch counts changes of membership, subscriptions and topics; the assignment epoch says for which of them
the target was computed; a member's epoch says which target it has reached.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidelog.coordination.groups.assignors.spec import Assignment, Place
from tidelog.coordination.groups.consumer.member import Member, MemberState, places_of
from tidelog.coordination.groups.environment import TopicView
from tidelog.coordination.groups.offsets import Offsets
from tidelog.coordination.groups.records import Change
from tidelog.coordination.groups.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from tidelog.coordination.groups.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
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
)
from tidelog.coordination.groups.records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tidelog.errors import StaleMemberEpoch, UnknownMemberId

Topics = dict[str, TopicView]


class ConsumerGroup:
    """One group of the consumer protocol."""

    type_name = "consumer"
    protocol_type = "consumer"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.assignment_epoch = 0
        """Invariant: at most `epoch`."""
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.target: dict[str, Assignment] = {}
        self.topics: Topics = {}
        """The subscribed topics, as they were when the epoch was last raised."""
        self.owners: dict[Place, str] = {}
        """Who has a place now, assigned or not yet given up.  Invariant: one member a place."""
        self.is_deleted = False
        self.seen_version = -1
        """Version of the topics that the group has last looked at; memory alone."""

    @property
    def state_name(self) -> str:
        """As ListGroups and ConsumerGroupDescribe say it."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        settled = all(
            each.state is MemberState.STABLE and each.epoch == self.assignment_epoch
            for each in self.members.values()
        )
        return "Stable" if settled else "Reconciling"

    def check(self) -> None:
        """Assert what must hold between two events."""
        assert self.assignment_epoch <= self.epoch
        owned: dict[Place, str] = {}
        for member in self.members.values():
            assert member.epoch <= self.assignment_epoch
            assert not member.assigned & member.revoking
            for place in member.assigned | member.revoking:
                assert place not in owned, (
                    f"{place} is owned by {owned[place]} and {member.member_id}"
                )
                owned[place] = member.member_id
        assert owned == self.owners
        targets = [place for each in self.target.values() for place in each]
        assert len(targets) == len(set(targets)), "a place is the target of one member"
        assert set(self.target) <= set(self.members)
        for instance_id, member_id in self.static_members.items():
            assert self.members[member_id].instance_id == instance_id

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.topics or any(
            topic in each.topic_names for each in self.members.values()
        )

    # ------------------------------------------------------------------ offsets

    def check_commit(self, member_id: str, epoch: int) -> None:
        """Raise unless this member of this epoch may commit; an outsider may while nobody is in."""
        if epoch < 0 and not self.members:
            return
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId
        if epoch != member.epoch:
            raise StaleMemberEpoch

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """A member may say who it is (v9); then its epoch must be right.  Outsiders may always read."""
        if member_id is None and epoch < 0:
            return
        self.check_commit(member_id or "", epoch)

    def expired_offsets(self, offsets: Offsets, retention_ms: int, now_ms: int) -> list[Any]:
        """Offsets of topics that nobody reads age from their commit."""
        return offsets.expired(
            self.group_id,
            lambda each: each.commit_timestamp_ms,
            lambda topic: not self.is_subscribed(topic),
            retention_ms,
            now_ms,
        )

    # ------------------------------------------------------------------ records

    def epoch_record(self, epoch: int) -> Change:
        return Change(
            ConsumerGroupMetadataKey(group_id=self.group_id),
            ConsumerGroupMetadataValue(epoch=epoch),
        )

    def topics_record(self, topics: Topics) -> Change:
        rows = [
            TopicMetadata(
                topic_id=each.topic_id, topic_name=each.name, num_partitions=each.partition_count
            )
            for each in topics.values()
        ]
        return Change(
            ConsumerGroupPartitionMetadataKey(group_id=self.group_id),
            ConsumerGroupPartitionMetadataValue(topics=rows),
        )

    def target_epoch_record(self, epoch: int) -> Change:
        return Change(
            ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id),
            ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
        )

    def member_tombstones(self, member_id: str) -> list[Change]:
        """The order matters: replay takes the assignment off before the member."""
        names = {"group_id": self.group_id, "member_id": member_id}
        return [
            Change(ConsumerGroupCurrentMemberAssignmentKey(**names), None),
            Change(ConsumerGroupTargetAssignmentMemberKey(**names), None),
            Change(ConsumerGroupMemberMetadataKey(**names), None),
        ]

    def tombstones(self) -> list[Change]:
        """The group is deleted."""
        records = [change for each in self.members for change in self.member_tombstones(each)]
        return [
            *records,
            Change(ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id), None),
            Change(ConsumerGroupPartitionMetadataKey(group_id=self.group_id), None),
            Change(ConsumerGroupMetadataKey(group_id=self.group_id), None),
        ]

    # ------------------------------------------------------------------ replay

    def replay(self, change: Change) -> None:
        """Take in one record; after compaction they may come in any order."""
        _REPLAYS[type(change.key)](self, change.key, change.value)

    def _replay_epoch(self, _: Any, value: Any) -> None:
        self.is_deleted = value is None
        self.epoch = value.epoch if value else 0

    def _replay_topics(self, _: Any, value: Any) -> None:
        self.topics = {
            each.topic_name: TopicView(each.topic_name, each.topic_id, each.num_partitions)
            for each in (value.topics if value else ())
        }

    def _replay_member(self, key: Any, value: Any) -> None:
        before = self.members.get(key.member_id)
        held = before.instance_id if before is not None else None
        # The instance id may have gone over to another member by now.
        if held is not None and self.static_members.get(held) == key.member_id:
            del self.static_members[held]
        if value is None:
            if before is not None:
                self._own(before, replace(before, assigned=frozenset(), revoking=frozenset()))
                del self.members[key.member_id]
            return
        self.members[key.member_id] = replace(
            before or Member(key.member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=tuple(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
        )
        if value.instance_id is not None:
            self.static_members[value.instance_id] = key.member_id

    def _replay_target_epoch(self, _: Any, value: Any) -> None:
        self.assignment_epoch = value.assignment_epoch if value else 0

    def _replay_target(self, key: Any, value: Any) -> None:
        if value is None:
            self.target.pop(key.member_id, None)
        else:
            self.target[key.member_id] = places_of(value.topic_partitions)

    def _replay_assignment(self, key: Any, value: Any) -> None:
        before = self.members.get(key.member_id)
        if value is None:
            if before is None:
                return
            after = replace(
                before,
                epoch=0,
                previous_epoch=-1,
                state=MemberState.STABLE,
                assigned=frozenset(),
                revoking=frozenset(),
            )
        else:
            before = before or Member(key.member_id)
            after = replace(
                before,
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState(value.state),
                assigned=places_of(value.assigned_partitions),
                revoking=places_of(value.partitions_pending_revocation),
            )
        self._own(before, after)
        self.members[key.member_id] = after

    def _own(self, before: Member, after: Member) -> None:
        member_id = after.member_id
        for place in (before.assigned | before.revoking) - (after.assigned | after.revoking):
            if self.owners.get(place) == member_id:
                del self.owners[place]
        for place in after.assigned | after.revoking:
            self.owners[place] = member_id


_REPLAYS: dict[type, Callable[[ConsumerGroup, Any, Any], None]] = {
    ConsumerGroupMetadataKey: ConsumerGroup._replay_epoch,
    ConsumerGroupPartitionMetadataKey: ConsumerGroup._replay_topics,
    ConsumerGroupMemberMetadataKey: ConsumerGroup._replay_member,
    ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroup._replay_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: ConsumerGroup._replay_target,
    ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroup._replay_assignment,
}
