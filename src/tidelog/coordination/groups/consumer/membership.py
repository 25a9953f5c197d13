"""Decisions about the members of a KIP-848 group: one heartbeat joins, reconciles and leaves.

A heartbeat is a chain of steps, each adding records: the member as it now is; the topics and the group epoch if the
subscription or the topics changed; a new target if the epoch ran ahead of it; the member's next step to the target.

Absent: members of the classic protocol in such a group (online migration); regular expressions are resolved at once
and not stored (Kafka's record type 16); racks are stored, and not looked at by the assignors.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from tidelog.coordination.groups.assignors import ASSIGNORS
from tidelog.coordination.groups.assignors.spec import Assignment, MemberSpec
from tidelog.coordination.groups.consumer.group import ConsumerGroup, Topics
from tidelog.coordination.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    Member,
    MemberState,
    by_topic,
    places_of,
)
from tidelog.coordination.groups.consumer.reconcile import reconcile
from tidelog.coordination.groups.consumer.regex import compile_pattern, matching
from tidelog.coordination.groups.environment import Client, Environment
from tidelog.coordination.groups.records import Change
from tidelog.coordination.groups.records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TargetTopicPartition,
)
from tidelog.coordination.runtime import Decision
from tidelog.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    InvalidRequest,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from tidelog.protocol.messages.consumer_group_heartbeat import Assignment as ToldAssignment
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

log = logging.getLogger(__name__)

Request = ConsumerGroupHeartbeatRequest
Response = ConsumerGroupHeartbeatResponse


class _Known(NamedTuple):
    """Whom a heartbeat comes from."""

    member: Member
    """As the coordinator knew it; a blank one if it is new."""
    is_new: bool
    replaced: str | None
    """The id of the static member whose place it takes."""


class ConsumerMembership:
    """The consumer protocol over the groups of one shard."""

    def __init__(self, env: Environment, find: Callable[[str], ConsumerGroup | None]) -> None:
        self._env = env
        self._find = find
        """A group is asked for anew whenever time has passed: a new one is made by the replay of its records."""

    def heartbeat(
        self, group: ConsumerGroup, request: Request, client: Client
    ) -> Decision[Change, Response]:
        """Join with epoch 0, go on with the epoch last told, leave with -1 (or -2 if static)."""
        if request.member_epoch < 0:
            return self._leave(group, request)
        known = self._identify(group, request)
        updated = _updated(known.member, request, client)
        records: list[Change] = []
        if known.replaced is not None:
            records += self._take_over(group, known)
        if known.is_new or known.replaced is not None or updated != known.member:
            records.append(updated.metadata_record(group.group_id))
        members = {key: each for key, each in group.members.items() if key != known.replaced}
        members[updated.member_id] = updated

        why = _why_anew(known, updated)
        topics, why = self._look_at_topics(group, members, why, records)
        epoch = group.epoch
        if why:
            epoch += 1
            records.append(group.epoch_record(epoch))
            self._env.counts.rebalances += 1
            log.info("group %s rebalances to epoch %d: %s", group.group_id, epoch, why)
        target = group.target.get(known.replaced or updated.member_id, frozenset())
        if epoch > group.assignment_epoch:
            target = self._assign(group, members, topics, epoch, known, records)

        owned = None if request.topic_partitions is None else places_of(request.topic_partitions)
        owners = (None, updated.member_id, known.replaced)
        after = reconcile(
            updated, target, max(epoch, group.assignment_epoch), owned,
            lambda place: group.owners.get(place) in owners,
        )  # fmt: skip
        if after != updated or known.is_new:
            records.append(after.assignment_record(group.group_id))
        decision = Decision(self._told(request, known.member, after), records)
        decision.then = lambda: self._after_heartbeat(group.group_id, known, after)
        return decision

    def start_timers(self, group: ConsumerGroup) -> None:
        """After load: members have a session timeout to show themselves."""
        for member in group.members.values():
            self._expect_sign_of_life(group.group_id, member.member_id)
            self._expect_revocation(group.group_id, member)

    # ------------------------------------------------------------------ who it is

    def check_request(self, request: Request) -> None:
        """Raise if the request contradicts itself, whatever group it is for."""
        for name in ("instance_id", "rack_id"):
            if getattr(request, name) == "":
                raise InvalidRequest(f"{name} must not be empty")
        assignors = self._env.config().consumer_assignors
        if request.server_assignor is not None and request.server_assignor not in assignors:
            raise UnsupportedAssignor(
                f"{request.server_assignor!r} is not one of {', '.join(assignors)}"
            )
        if request.member_epoch < LEAVE_STATIC_EPOCH:
            raise InvalidRequest(f"member_epoch {request.member_epoch} has no meaning")
        if request.member_epoch != JOIN_EPOCH and not request.member_id:
            raise InvalidRequest("member_id must be set")
        if request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
            raise InvalidRequest("only a static member leaves with -2")
        if request.member_epoch == JOIN_EPOCH:
            _check_join(request)
        if request.subscribed_topic_regex:
            compile_pattern(request.subscribed_topic_regex)

    def _identify(self, group: ConsumerGroup, request: Request) -> _Known:
        joins = request.member_epoch == JOIN_EPOCH
        member = group.members.get(request.member_id) if request.member_id else None
        if request.instance_id is not None:
            holder = group.static_members.get(request.instance_id)
            if holder is not None and holder != request.member_id:
                return self._identify_static(group, request, group.members[holder])
            if holder is None and not joins:
                raise UnknownMemberId
        if member is not None:
            _check_epoch(member, request)
            return _Known(member, False, None)
        if not joins:
            raise UnknownMemberId
        if len(group.members) >= self._env.config().consumer_max_size:
            raise GroupMaxSizeReached
        # Clients from v1 on make their id; older ones are given one.
        return _Known(Member(request.member_id or self._env.new_id()), True, None)

    def _identify_static(self, group: ConsumerGroup, request: Request, holder: Member) -> _Known:
        if request.member_epoch != JOIN_EPOCH:
            raise FencedInstanceId
        if holder.epoch != LEAVE_STATIC_EPOCH:
            raise UnreleasedInstanceId
        member_id = request.member_id or self._env.new_id()
        return _Known(
            replace(holder, member_id=member_id, epoch=0, previous_epoch=0), False, holder.member_id
        )

    def _take_over(self, group: ConsumerGroup, known: _Known) -> list[Change]:
        """A static member came back under a new id: it gets what the old id had."""
        assert known.replaced is not None
        target = group.target.get(known.replaced, frozenset())
        return [
            *group.member_tombstones(known.replaced),
            known.member.metadata_record(group.group_id),
            _target_record(group.group_id, known.member.member_id, target),
            known.member.assignment_record(group.group_id),
        ]

    # ------------------------------------------------------------------ topics and target

    def _look_at_topics(
        self, group: ConsumerGroup, members: Mapping[str, Member], why: str, records: list[Change]
    ) -> tuple[Topics, str]:
        """The subscribed topics as they are now, if there is a reason to look."""
        if not why and group.seen_version == self._env.topics().version:
            return group.topics, why
        topics = self._subscribed(members)
        if topics != group.topics:
            records.append(group.topics_record(topics))
            why = why or "its topics changed"
        return topics, why

    def _subscribed(self, members: Mapping[str, Member]) -> Topics:
        names = frozenset().union(*(self._names_of(each) for each in members.values()))
        views = ((name, self._env.topics().maybe_get(name)) for name in sorted(names))
        return {name: view for name, view in views if view is not None}

    def _names_of(self, member: Member) -> frozenset[str]:
        names = frozenset(member.topic_names)
        if member.topic_regex:
            names |= matching(member.topic_regex, self._env.topics().names())
        return names

    def _assign(
        self,
        group: ConsumerGroup,
        members: Mapping[str, Member],
        topics: Topics,
        epoch: int,
        known: _Known,
        records: list[Change],
    ) -> Assignment:
        """Compute the target of all members; returns that of the member that asks."""
        before = dict(group.target)
        if known.replaced is not None:
            before[known.member.member_id] = before.pop(known.replaced, frozenset())
        specs = {}
        for member_id, each in members.items():
            ids = frozenset(
                topics[name].topic_id for name in self._names_of(each) if name in topics
            )
            specs[member_id] = MemberSpec(each.instance_id, ids, before.get(member_id, frozenset()))
        counts = {each.topic_id: each.partition_count for each in topics.values()}
        target = ASSIGNORS[self._preferred_assignor(members)](specs, counts)
        for member_id, places in target.items():
            if places != before.get(member_id):
                records.append(_target_record(group.group_id, member_id, places))
        records.append(group.target_epoch_record(epoch))
        return target[known.member.member_id]

    def _preferred_assignor(self, members: Mapping[str, Member]) -> str:
        votes = Counter(each.server_assignor for each in members.values() if each.server_assignor)
        return votes.most_common(1)[0][0] if votes else self._env.config().consumer_assignors[0]

    # ------------------------------------------------------------------ leaving

    def _leave(self, group: ConsumerGroup, request: Request) -> Decision[Change, Response]:
        member = self._leaver(group, request)
        told = Response(member_id=member.member_id, member_epoch=request.member_epoch)
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            # It keeps its partitions until its session timeout.
            away = replace(member, epoch=LEAVE_STATIC_EPOCH, revoking=frozenset())
            return Decision(told, [away.assignment_record(group.group_id)])
        return Decision(told, *self._fence(group, member, f"{member.member_id} left"))

    def _leaver(self, group: ConsumerGroup, request: Request) -> Member:
        member_id = request.member_id
        if request.instance_id is not None:
            holder = group.static_members.get(request.instance_id)
            if holder is None:
                raise UnknownMemberId
            if holder != member_id:
                raise FencedInstanceId
        member = group.members.get(member_id)
        if member is None:
            raise UnknownMemberId
        return member

    def _fence(
        self, group: ConsumerGroup, member: Member, why: str
    ) -> tuple[list[Change], Callable[[], None]]:
        """Remove a member; the next heartbeat of any other computes the new target."""
        left = {key: each for key, each in group.members.items() if key != member.member_id}
        records = group.member_tombstones(member.member_id)
        topics = self._subscribed(left)
        if topics != group.topics:
            records.append(group.topics_record(topics))
        records.append(group.epoch_record(group.epoch + 1))
        self._env.counts.rebalances += 1
        log.info("group %s rebalances to epoch %d: %s", group.group_id, group.epoch + 1, why)
        return records, lambda: self._cancel(group.group_id, member.member_id)

    # ------------------------------------------------------------------ timers

    def _after_heartbeat(self, group_id: str, known: _Known, after: Member) -> None:
        group = self._find(group_id)
        assert group is not None, "a heartbeat that is not refused makes its group"
        group.seen_version = self._env.topics().version
        if known.replaced is not None:
            self._cancel(group_id, known.replaced)
        self._expect_sign_of_life(group_id, after.member_id)
        self._expect_revocation(group_id, after)

    def _expect_sign_of_life(self, group_id: str, member_id: str) -> None:
        def silent() -> Decision[Change, None]:
            group = self._find(group_id)
            member = group.members.get(member_id) if group is not None else None
            if group is None or member is None:
                return Decision(None)
            why = f"{member_id} was silent for its session timeout"
            return Decision(None, *self._fence(group, member, why))

        timeout_ms = self._env.config().consumer_session_timeout_ms
        self._env.timers.schedule((group_id, "session", member_id), timeout_ms, silent)

    def _expect_revocation(self, group_id: str, member: Member) -> None:
        """A member that must give up partitions has its rebalance timeout to do so."""
        key = (group_id, "revoke", member.member_id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._env.timers.cancel(key)
            return
        if key in self._env.timers:
            return

        def late() -> Decision[Change, None]:
            group = self._find(group_id)
            now = group.members.get(member.member_id) if group is not None else None
            if group is None or now is None or now.epoch != member.epoch:
                return Decision(None)
            if now.state is not MemberState.UNREVOKED_PARTITIONS:
                return Decision(None)
            why = f"{member.member_id} did not give up its partitions in time"
            return Decision(None, *self._fence(group, now, why))

        self._env.timers.schedule(key, member.rebalance_timeout_ms, late)

    def _cancel(self, group_id: str, member_id: str) -> None:
        for kind in ("session", "revoke"):
            self._env.timers.cancel((group_id, kind, member_id))

    # ------------------------------------------------------------------ answer

    def _told(self, request: Request, before: Member, after: Member) -> Response:
        response = Response(
            member_id=after.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self._env.config().consumer_heartbeat_interval_ms,
        )
        is_full = request.member_epoch == JOIN_EPOCH or (
            request.rebalance_timeout_ms != -1
            and request.subscribed_topic_names is not None
            and request.topic_partitions is not None
        )
        if is_full or before.assigned != after.assigned:
            response.assignment = ToldAssignment(
                topic_partitions=by_topic(after.assigned, TopicPartitions)
            )
        return response


def _check_join(request: Request) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequest("rebalance_timeout_ms must be set when joining")
    if request.topic_partitions is None or request.topic_partitions:
        raise InvalidRequest("topic_partitions must be empty when joining")
    if not request.subscribed_topic_names and not request.subscribed_topic_regex:
        raise InvalidRequest(
            "subscribed_topic_names or subscribed_topic_regex must be set when joining"
        )


def _check_epoch(member: Member, request: Request) -> None:
    """The epoch must be the last one told, or the one before if the answer may have been lost."""
    epoch = request.member_epoch
    if epoch == member.epoch or epoch == JOIN_EPOCH:
        return
    owned = request.topic_partitions
    answer_was_lost = epoch == member.previous_epoch and owned is not None
    if answer_was_lost and places_of(owned or ()) <= member.assigned:
        return
    raise FencedMemberEpoch(
        f"the member's epoch is {member.epoch}, not {epoch}; it must join again"
    )


def _updated(member: Member, request: Request, client: Client) -> Member:
    """The member with what the request says anew; null means unchanged, an empty pattern means none."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack_id=request.rack_id or member.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        topic_names=member.topic_names if names is None else tuple(sorted(set(names))),
        topic_regex=member.topic_regex if regex is None else (regex or None),
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=request.server_assignor or member.server_assignor,
    )


def _why_anew(known: _Known, updated: Member) -> str:
    """Why the group needs a new assignment; empty if it does not."""
    if known.is_new:
        return f"{updated.member_id} joins"
    before = known.member
    if (before.topic_names, before.topic_regex) != (updated.topic_names, updated.topic_regex):
        return f"{updated.member_id} changed its subscription"
    return ""


def _target_record(group_id: str, member_id: str, places: Assignment) -> Change:
    return Change(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=by_topic(places, TargetTopicPartition)
        ),
    )
