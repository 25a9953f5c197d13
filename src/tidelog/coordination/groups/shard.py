"""One shard of the group coordinator: the groups and offsets of one partition of `__consumer_offsets`.

The runtime calls `replay`; requests come through the decision methods, which name the group, see what kind it is
and pass on.  A group id is a classic group or a KIP-848 group, never both: an empty one is converted when members
of the other kind come (offline migration); mixing the two in one group (online migration) is absent.
"""

import logging
from typing import Any

from tidelog.coordination.groups import offset_decisions
from tidelog.coordination.groups.classic.group import ClassicGroup
from tidelog.coordination.groups.classic.membership import Membership
from tidelog.coordination.groups.classic.states import DEAD, EMPTY
from tidelog.coordination.groups.consumer.group import ConsumerGroup
from tidelog.coordination.groups.consumer.membership import ConsumerMembership
from tidelog.coordination.groups.environment import Client, Environment
from tidelog.coordination.groups.offsets import Offsets, tombstone
from tidelog.coordination.groups.records import Change
from tidelog.coordination.groups.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from tidelog.coordination.groups.records.offset_commit import OffsetCommitKey
from tidelog.coordination.runtime import Decision, Reply
from tidelog.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidSessionTimeout,
    KafkaError,
    NonEmptyGroup,
    NotCoordinator,
    StaleMemberEpoch,
    UnknownMemberId,
)
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.join_group import JoinGroupRequest
from tidelog.protocol.messages.leave_group import MemberIdentity
from tidelog.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tidelog.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

log = logging.getLogger(__name__)

Group = ClassicGroup | ConsumerGroup

_GROUP_ID_NOT_FOUND_FROM = 9
"""OffsetCommit version that knows GroupIdNotFound; older ones hear IllegalGeneration."""
_EXPIRY = ("", "expiry")


class GroupShard:
    """The state of a shard, and the decisions over it."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.classic = Membership(env)
        self.consumer = ConsumerMembership(env, self._maybe_consumer)

    # ------------------------------------------------------------------ replay

    def replay(self, record: Change) -> None:
        """Take in one record."""
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            self.offsets.replay(record)
            if value is not None and key.group not in self.groups:
                self.groups[key.group] = ClassicGroup(key.group, self._env.clock.now_ms())
        elif isinstance(key, GroupMetadataKey):
            self._replay_classic(key.group, value)
        else:
            self._replay_consumer(record)

    def _replay_classic(self, group_id: str, value: Any) -> None:
        group = self.groups.get(group_id)
        if value is None:
            if isinstance(group, ClassicGroup):
                self.classic.stop_timers(group)
                if group.state is not DEAD:
                    group.become(DEAD, self._env.clock.now_ms())
                self._forget(group_id)
            return
        if not isinstance(group, ClassicGroup):
            group = self.groups[group_id] = ClassicGroup(group_id, self._env.clock.now_ms())
        assert isinstance(value, GroupMetadataValue)
        group.replay(value)

    def _replay_consumer(self, record: Change) -> None:
        group_id: str = record.key.group_id  # type: ignore[attr-defined]
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            group = self.groups[group_id] = ConsumerGroup(group_id)
        group.replay(record)
        if group.is_deleted:
            self._forget(group_id)

    def _forget(self, group_id: str) -> None:
        """The group is gone; if its offsets are not, it goes on as one that never had members."""
        del self.groups[group_id]
        if self.offsets.of(group_id):
            self.groups[group_id] = ClassicGroup(group_id, self._env.clock.now_ms())

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """The offsets of this producer's transaction count now, or are forgotten."""
        self.offsets.end_transaction(producer_id, commit)

    def loaded(self) -> None:
        """Members have their session timeout to show themselves; expiry begins."""
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                self.classic.start_timers(group)
            else:
                self.consumer.start_timers(group)
        self._schedule_expiry()

    def unloaded(self) -> list[tuple[Reply, Any]]:
        """Everyone who waits is sent to look for the coordinator."""
        answers: list[tuple[Reply, Any]] = []
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    for waiting in (member.awaiting_join, member.awaiting_sync):
                        if waiting is not None:
                            answers.append((waiting, NotCoordinator()))
        return answers

    def check(self) -> None:
        """Assert the invariants of every group."""
        for group in self.groups.values():
            group.check()

    # ------------------------------------------------------------------ classic members

    def join(
        self, request: JoinGroupRequest, client: Client, reply: Reply
    ) -> Decision[Change, None]:
        """A member of the classic protocol comes, or comes back."""
        config = self._env.config()
        least, most = config.min_session_timeout_ms, config.max_session_timeout_ms
        if not least <= request.session_timeout_ms <= most:
            raise InvalidSessionTimeout(
                f"a session timeout of {request.session_timeout_ms} ms is not between {least} and {most}"
            )
        group = self.groups.get(request.group_id)
        tombstones: list[Change] = []
        if isinstance(group, ConsumerGroup):
            if group.members:
                raise InconsistentGroupProtocol("the group uses the consumer protocol (KIP-848)")
            tombstones = group.tombstones()
            group = None
        if group is None:
            if request.member_id:
                raise UnknownMemberId
            group = ClassicGroup(request.group_id, self._env.clock.now_ms())
        step = self.classic.join(group, request, client, reply)
        if tombstones:
            step.records[:0] = tombstones
            self._add_after(step, group)
        else:
            self.groups[request.group_id] = group
        return step

    def _add_after(self, step: Decision[Change, None], group: ClassicGroup) -> None:
        """The group takes the place of one whose tombstones are in the same step."""
        before = step.then

        def added() -> None:
            self.groups[group.group_id] = group
            if before is not None:
                before()

        step.then = added

    def sync(self, request: SyncGroupRequest, reply: Reply) -> Decision[Change, None]:
        return self.classic.sync(self._classic(request.group_id), request, reply)

    def heartbeat(self, request: HeartbeatRequest) -> Decision[Change, None]:
        return self.classic.heartbeat(self._classic(request.group_id), request)

    def leave(self, group_id: str, leavers: list[MemberIdentity]) -> Decision[Change, list[int]]:
        return self.classic.leave(self._classic(group_id), leavers)

    def _classic(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise UnknownMemberId
        return group

    # ------------------------------------------------------------------ KIP-848 members

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> Decision[Change, ConsumerGroupHeartbeatResponse]:
        """A member of the consumer protocol joins, goes on, or leaves."""
        self.consumer.check_request(request)
        group = self.groups.get(request.group_id)
        tombstones: list[Change] = []
        if isinstance(group, ClassicGroup) and request.member_epoch == 0:
            if group.state is EMPTY:
                # Offline upgrade: its offsets stay.
                tombstones = [Change(GroupMetadataKey(group=group.group_id), None)]
                group = None
            else:
                raise GroupIdNotFound(
                    f"group {request.group_id} has members of the classic protocol"
                )
        if not isinstance(group, ConsumerGroup):
            if request.member_epoch != 0:
                raise GroupIdNotFound
            group = ConsumerGroup(request.group_id)
        decision = self.consumer.heartbeat(group, request, client)
        decision.records[:0] = tombstones
        return decision

    def _maybe_consumer(self, group_id: str) -> ConsumerGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    # ------------------------------------------------------------------ offsets

    def commit(
        self, request: OffsetCommitRequest, api_version: int
    ) -> Decision[Change, OffsetCommitResponse]:
        """Store offsets, if this member may."""
        generation = request.generation_id_or_member_epoch
        group = self.groups.get(request.group_id)
        if group is None:
            if generation >= 0:
                known = api_version >= _GROUP_ID_NOT_FOUND_FROM
                raise GroupIdNotFound() if known else IllegalGeneration()
        elif isinstance(group, ClassicGroup):
            offset_decisions.check_commit(
                group, request.member_id, request.group_instance_id, generation
            )
            self.classic.sign_of_life(group, request.member_id)
        else:
            group.check_commit(request.member_id, generation)
        return offset_decisions.commit(self._env, request)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest
    ) -> Decision[Change, TxnOffsetCommitResponse]:
        """Store offsets that count when the transaction is committed, if this member may (KIP-447)."""
        generation = request.generation_id
        group = self.groups.get(request.group_id)
        if group is None:
            if generation >= 0:
                raise IllegalGeneration
        elif isinstance(group, ClassicGroup):
            offset_decisions.check_commit_in_transaction(
                group, request.member_id, request.group_instance_id, generation
            )
        elif generation >= 0 or request.member_id or request.group_instance_id is not None:
            try:
                group.check_commit(request.member_id, generation)
            except StaleMemberEpoch:
                raise IllegalGeneration from None
        return offset_decisions.commit_in_transaction(self._env, request)

    def fetch(
        self, request: OffsetFetchRequestGroup, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        """What the group has committed."""
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            try:
                group.check_fetch(request.member_id, request.member_epoch)
            except KafkaError as error:
                return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error.code)
        return offset_decisions.fetch(self.offsets, request, require_stable)

    def delete_offsets(
        self, request: OffsetDeleteRequest
    ) -> Decision[Change, OffsetDeleteResponse]:
        group = self.groups.get(request.group_id)
        if group is None:
            raise GroupIdNotFound
        return offset_decisions.delete(group, self.offsets, request)

    # ------------------------------------------------------------------ the end of groups and offsets

    def delete_group(self, group_id: str) -> Decision[Change, None]:
        """Forget an empty group and its offsets, also those that an open transaction would bring back."""
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound
        if group.members or (isinstance(group, ClassicGroup) and group.state is not EMPTY):
            raise NonEmptyGroup
        records = [tombstone(group_id, place) for place in sorted(self.offsets.places_of(group_id))]
        return Decision(None, records + _tombstones(group))

    def topics_deleted(self, names: frozenset[str]) -> Decision[Change, None]:
        """Offsets of topics that are gone would be wrong for topics of the same name."""
        records = [
            tombstone(group_id, place)
            for group_id in self.offsets.group_ids()
            for place in sorted(self.offsets.places_of(group_id))
            if place[0] in names
        ]
        return Decision(None, records)

    def expire(self) -> Decision[Change, None]:
        """Tombstones for offsets past their retention, and for empty groups that have none left."""
        now_ms = self._env.clock.now_ms()
        retention_ms = self._env.config().offsets_retention_minutes * 60_000
        records: list[Change] = []
        for group_id, group in list(self.groups.items()):
            if isinstance(group, ClassicGroup):
                places = offset_decisions.expired_in_classic(
                    group, self.offsets, retention_ms, now_ms
                )
                is_empty = group.state is EMPTY and not group.pending_joins
            else:
                places = group.expired_offsets(self.offsets, retention_ms, now_ms)
                is_empty = not group.members
            records += [tombstone(group_id, place) for place in places]
            left = len(self.offsets.of(group_id)) - len(places)
            if is_empty and not left and not self.offsets.has_pending(group_id):
                records += _tombstones(group)
        if records:
            log.info("%d records of expired offsets and groups are deleted", len(records))
        return Decision(None, records)

    def _schedule_expiry(self) -> None:
        def due() -> Decision[Change, None]:
            self._schedule_expiry()
            return self.expire()

        interval_ms = self._env.config().offsets_retention_check_interval_ms
        self._env.timers.schedule(_EXPIRY, interval_ms, due)


def _tombstones(group: Group) -> list[Change]:
    if isinstance(group, ClassicGroup):
        return [Change(GroupMetadataKey(group=group.group_id), None)]
    return group.tombstones()
