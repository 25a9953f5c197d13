"""Decisions about the members of a classic group: join, sync, heartbeat, leave, and what timers do.

Each returns a `Decision`; answers that must wait for the group are kept with the member as `Reply`s.
The course of a rebalance is in `rebalancer.py`.

Absent: classic members inside a KIP-848 group (online migration); the shard refuses to mix the two.
"""

import logging
from typing import Any

from tidelog.coordination.groups.classic.answers import joined, members_of, synced
from tidelog.coordination.groups.classic.group import ClassicGroup
from tidelog.coordination.groups.classic.member import Member, Protocols
from tidelog.coordination.groups.classic.rebalancer import (
    Rebalancer,
    Step,
    session_timer,
    sync_timer,
)
from tidelog.coordination.groups.classic.states import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    TABLE,
)
from tidelog.coordination.groups.environment import Client, Environment
from tidelog.coordination.groups.records import Change
from tidelog.coordination.groups.subscription import is_to_give_up
from tidelog.coordination.runtime import Decision, Reply
from tidelog.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
)
from tidelog.protocol.messages.leave_group import MemberIdentity
from tidelog.protocol.messages.sync_group import SyncGroupRequest

log = logging.getLogger(__name__)

MEMBER_ID_REQUIRED_FROM = 4
"""JoinGroup version from which a new member must come twice (KIP-394)."""
SKIP_ASSIGNMENT_FROM = 9
"""JoinGroup version from which a leader can be told not to assign (KIP-814)."""
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000
"""A new member's first join may wait this long, whatever its session timeout (Kafka: the same)."""


class Membership:
    """The classic protocol over the groups of one shard."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._rebalancer = Rebalancer(env)

    def start_timers(self, group: ClassicGroup) -> None:
        """After load: members have a session timeout to show themselves."""
        self._rebalancer.start_timers(group)

    def stop_timers(self, group: ClassicGroup) -> None:
        """The group is gone."""
        self._rebalancer.stop_timers(group)

    # ------------------------------------------------------------------ join

    def join(
        self, group: ClassicGroup, request: JoinGroupRequest, client: Client, reply: Reply
    ) -> Step:
        """Let a member in, or back in; `reply` is answered when its generation begins."""
        step: Step = Decision(None)
        if group.state is DEAD:
            raise CoordinatorNotAvailable
        protocols = tuple((each.name, each.metadata) for each in request.protocols)
        if not self._has_room(group, request.member_id):
            if request.member_id in group.members:
                self._rebalancer.remove(group, request.member_id, UnknownMemberId(), step)
            raise GroupMaxSizeReached
        if not group.supports(request.protocol_type, protocols):
            raise InconsistentGroupProtocol(_no_common_protocol(group, request))
        if request.member_id:
            self._join_known(group, request, protocols, client, reply, step)
        else:
            self._join_new(group, request, protocols, client, reply, step)
        return step

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self._env.config().max_size
        if group.state is EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is PREPARING:
            waiting = sum(each.awaiting_join is not None for each in group.members.values())
            return waiting < limit or (member is not None and member.awaiting_join is not None)
        return member is not None or len(group.members) < limit

    def _join_new(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        protocols: Protocols,
        client: Client,
        reply: Reply,
        step: Step,
    ) -> None:
        instance_id = request.group_instance_id
        member_id = f"{instance_id or client.client_id}-{self._env.new_id()}"
        if instance_id is not None and instance_id in group.static_members:
            self._rejoin_static(group, request, protocols, client, member_id, reply, step)
        elif instance_id is None and client.api_version >= MEMBER_ID_REQUIRED_FROM:
            group.pending_joins.add(member_id)
            self._rebalancer.expect_sign_of_life(group, member_id, request.session_timeout_ms)
            answer = JoinGroupResponse(error_code=MemberIdRequired.code, member_id=member_id)
            step.answers.append((reply, answer))
        else:
            self._add(group, request, protocols, client, member_id, reply, step)

    def _join_known(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        protocols: Protocols,
        client: Client,
        reply: Reply,
        step: Step,
    ) -> None:
        member_id = request.member_id
        if member_id in group.pending_joins and request.group_instance_id is None:
            self._add(group, request, protocols, client, member_id, reply, step)
            return
        member = group.validate(member_id, request.group_instance_id)
        same = member.protocols == protocols
        if group.state is PREPARING:
            why = f"{member_id} rejoins"
        elif group.state is STABLE and group.leader == member_id:
            # Also without a change: it may have seen new partitions, which its metadata does not show.
            why = f"the leader {member_id} rejoins"
        elif same:
            # The answer to its last join was lost, or a follower asks again.
            members = members_of(group) if group.state is COMPLETING else []
            step.answers.append((reply, joined(group, member, members)))
            return
        else:
            why = f"{member_id} changed its subscription or protocols"
        if request.reason:
            why += f" ({request.reason})"
        self._update(member, request, protocols, client, reply, step)
        self._rebalancer.rebalance(group, why, step)

    def _add(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        protocols: Protocols,
        client: Client,
        member_id: str,
        reply: Reply,
        step: Step,
    ) -> None:
        member = Member(
            member_id,
            request.group_instance_id,
            client.client_id,
            client.host,
            _rebalance_timeout_ms(request),
            request.session_timeout_ms,
            protocols,
            is_new=True,
            awaiting_join=reply,
        )
        if group.state is PREPARING and group.came_from is EMPTY:
            group.member_added = True
        group.add(member, request.protocol_type)
        self._rebalancer.expect_sign_of_life(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        why = f"{member_id} joins"
        if request.reason:
            why += f" ({request.reason})"
        self._rebalancer.rebalance(group, why, step)

    def _update(
        self,
        member: Member,
        request: JoinGroupRequest,
        protocols: Protocols,
        client: Client,
        reply: Reply | None,
        step: Step,
    ) -> None:
        if member.awaiting_join is not None:
            # The connection of its last try is gone, or it gave up on it.
            step.answers.append((member.awaiting_join, RebalanceInProgress()))
        member.protocols = protocols
        member.rebalance_timeout_ms = _rebalance_timeout_ms(request)
        member.session_timeout_ms = request.session_timeout_ms
        member.client_id, member.client_host = client.client_id, client.host
        member.is_loaded = False
        member.awaiting_join = reply

    def _rejoin_static(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        protocols: Protocols,
        client: Client,
        new_id: str,
        reply: Reply,
        step: Step,
    ) -> None:
        """A static member came back under a new id: it gets the old place, and if it can, no rebalance.

        Unless it went while it was to give partitions up.  Who comes back does not know of them, so nobody would ask for the
        rebalance in which others get them (in Kafka nobody does).
        """
        instance_id = request.group_instance_id or ""
        old_id = group.static_members[instance_id]
        old = group.members[old_id]
        gives_up = is_to_give_up(old.metadata(group.protocol), old.assignment)
        if group.state is STABLE and self._keeps_protocol(group, old, protocols) and not gives_up:
            self._replace_quietly(group, old, request, protocols, client, new_id, reply, step)
            return
        self._fence(old, step)
        self._env.timers.cancel(session_timer(group, old_id))
        member = group.replace_static(old_id, new_id)
        self._rebalancer.expect_sign_of_life(group, new_id, member.session_timeout_ms)
        self._update(member, request, protocols, client, reply, step)
        why = f"the static member {instance_id} came back as {new_id} with other protocols"
        if gives_up:
            why = f"the static member {instance_id} came back as {new_id} without what it was to give up"
        if group.state is COMPLETING:
            # The leader is about to assign to the old id.
            why = f"the static member {instance_id} came back as {new_id} during the rebalance"
        self._rebalancer.rebalance(group, why, step)

    def _keeps_protocol(self, group: ClassicGroup, member: Member, protocols: Protocols) -> bool:
        before, member.protocols = member.protocols, protocols
        try:
            return bool(group.candidates()) and group.select_protocol() == group.protocol
        finally:
            member.protocols = before

    def _replace_quietly(
        self,
        group: ClassicGroup,
        old: Member,
        request: JoinGroupRequest,
        protocols: Protocols,
        client: Client,
        new_id: str,
        reply: Reply,
        step: Step,
    ) -> None:
        """Record the static member's new id under the same generation and assignment (KIP-345)."""
        old_id, leader_before = old.member_id, group.leader
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        assignments[new_id] = old.assignment
        change = group.to_record(assignments, group.since_ms)
        value: Any = change.value
        value.leader = new_id if group.leader == old_id else group.leader
        for each in value.members:
            if each.member_id == old_id:
                each.member_id = new_id
                each.client_id, each.client_host = client.client_id, client.host
                each.subscription = dict(protocols).get(group.protocol or "", b"")
                each.session_timeout = request.session_timeout_ms
                each.rebalance_timeout = _rebalance_timeout_ms(request)
        step.records.append(change)

        def replaced() -> None:
            member = group.members[new_id]
            self._update(member, request, protocols, client, None, step)
            self._env.timers.cancel(session_timer(group, old_id))
            self._rebalancer.expect_sign_of_life(group, new_id, member.session_timeout_ms)
            is_leader = group.leader == new_id
            can_skip = client.api_version >= SKIP_ASSIGNMENT_FROM
            answer = joined(group, member, members_of(group) if is_leader and can_skip else [])
            answer.skip_assignment = is_leader and can_skip
            if not can_skip:
                # An old client that is told it leads would assign anew: it is told of the id it had.
                answer.leader = leader_before or ""
            step.answers.append((reply, answer))
            log.info(
                "group %s: static member %s replaced %s, no rebalance",
                group.group_id,
                new_id,
                old_id,
            )

        step.then = replaced

    def _fence(self, member: Member, step: Step) -> None:
        for waiting in (member.awaiting_join, member.awaiting_sync):
            if waiting is not None:
                step.answers.append((waiting, FencedInstanceId()))
        member.awaiting_join = member.awaiting_sync = None

    # ------------------------------------------------------------------ sync

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, reply: Reply) -> Step:
        """The leader brings the assignment, the others fetch theirs."""
        step: Step = Decision(None)
        if group.state is DEAD:
            raise CoordinatorNotAvailable
        member = group.validate(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise IllegalGeneration
        _check_protocol("type", request.protocol_type, group.protocol_type)
        _check_protocol("name", request.protocol_name, group.protocol)
        _refuse(TABLE[group.state].sync)
        group.pending_syncs.discard(member.member_id)
        if group.state is STABLE:
            self._rebalancer.expect_sign_of_life(group, member.member_id, member.session_timeout_ms)
            step.answers.append((reply, synced(group, member.assignment)))
        elif group.leader == member.member_id:
            self._assign(group, request, member, reply, step)
        else:
            if member.awaiting_sync is not None:
                step.answers.append((member.awaiting_sync, RebalanceInProgress()))
            member.awaiting_sync = reply
        self._stop_sync_timer_if_all_came(group)
        return step

    def _assign(
        self,
        group: ClassicGroup,
        request: SyncGroupRequest,
        leader: Member,
        reply: Reply,
        step: Step,
    ) -> None:
        assignments = {each.member_id: each.assignment for each in request.assignments}
        step.records.append(group.to_record(assignments, self._env.clock.now_ms()))
        answers: list[tuple[Reply, Any]] = [
            (reply, synced(group, assignments.get(leader.member_id, b"")))
        ]
        for each in group.members.values():
            if each.awaiting_sync is not None:
                answer = synced(group, assignments.get(each.member_id, b""))
                answers.append((each.awaiting_sync, answer))
        step.answers += answers

        def assigned() -> None:
            for each in group.members.values():
                each.awaiting_sync = None
                self._rebalancer.expect_sign_of_life(group, each.member_id, each.session_timeout_ms)

        step.then = assigned

    def _stop_sync_timer_if_all_came(self, group: ClassicGroup) -> None:
        if not group.pending_syncs:
            self._env.timers.cancel(sync_timer(group))

    # ------------------------------------------------------------------ heartbeat and leave

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest) -> Step:
        """A sign of life; raises what the member must do."""
        if group.state is DEAD:
            raise CoordinatorNotAvailable
        member = group.validate(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise IllegalGeneration
        self._rebalancer.expect_sign_of_life(group, member.member_id, member.session_timeout_ms)
        _refuse(TABLE[group.state].heartbeat)
        return Decision(None)

    def sign_of_life(self, group: ClassicGroup, member_id: str) -> None:
        """Something other than a heartbeat shows that the member lives."""
        member = group.members.get(member_id)
        if member is not None and group.state in (PREPARING, STABLE):
            self._rebalancer.expect_sign_of_life(group, member_id, member.session_timeout_ms)

    def leave(
        self, group: ClassicGroup, leavers: list[MemberIdentity]
    ) -> Decision[Change, list[int]]:
        """Let members go; the response is an error code for each."""
        if group.state is DEAD:
            raise CoordinatorNotAvailable
        step: Step = Decision(None)
        codes: list[int] = []
        gone: list[str] = []
        for each in leavers:
            try:
                gone.append(self._leave_one(group, each, step))
                codes.append(0)
            except KafkaError as error:
                codes.append(error.code)
        if gone:
            reasons = "; ".join(sorted({each.reason for each in leavers if each.reason}))
            why = f"{', '.join(gone)} left" + (f" ({reasons})" if reasons else "")
            self._rebalancer.after_removal(group, why, step)
        return Decision(codes, step.records, step.then, step.answers)

    def _leave_one(self, group: ClassicGroup, leaver: MemberIdentity, step: Step) -> str:
        member_id, instance_id = leaver.member_id, leaver.group_instance_id
        if not member_id and instance_id is not None:
            # An administrator knows the instance id alone.
            member_id = group.static_members.get(instance_id, "")
        if member_id in group.pending_joins:
            group.pending_joins.discard(member_id)
            self._env.timers.cancel(session_timer(group, member_id))
            return member_id
        group.validate(member_id, instance_id)
        self._rebalancer.remove(group, member_id, UnknownMemberId(), step)
        return member_id


def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Version 0 has one timeout for both."""
    timeout_ms = request.rebalance_timeout_ms
    return timeout_ms if timeout_ms >= 0 else request.session_timeout_ms


def _check_protocol(what: str, theirs: str | None, ours: str | None) -> None:
    if theirs is not None and theirs != ours:
        raise InconsistentGroupProtocol(f"the group's protocol {what} is {ours!r}, not {theirs!r}")


def _refuse(error: type[KafkaError] | None) -> None:
    if error is not None:
        raise error


def _no_common_protocol(group: ClassicGroup, request: JoinGroupRequest) -> str:
    if request.protocol_type != group.protocol_type and group.members:
        return (
            f"the group's protocol type is {group.protocol_type!r}, not {request.protocol_type!r}"
        )
    theirs = ", ".join(each.name for each in request.protocols) or "none"
    return f"the group knows {', '.join(sorted(group.candidates())) or 'none'}; the member {theirs}"
