"""A classic group: who is in it, in which state it is, and the one door through which the state changes.

What is recorded (a generation with its assignments, or that the group is empty) changes only by `replay`.  What
lives for one rebalance (who has joined, who waits) is memory alone, as in Kafka: after a crash members join again.
"""

from collections import Counter
from collections.abc import Iterable

from tidelog.coordination.groups.classic.member import Member, Protocols
from tidelog.coordination.groups.classic.states import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    TABLE,
    GroupState,
)
from tidelog.coordination.groups.records import Change
from tidelog.coordination.groups.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from tidelog.coordination.groups.subscription import CONSUMER_PROTOCOL_TYPE, maybe_topics
from tidelog.errors import FencedInstanceId, UnknownMemberId


class ClassicGroup:
    """One group of the classic protocol."""

    type_name = "classic"

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = EMPTY
        self.since_ms = now_ms
        """When the group came into its state."""
        self.came_from = EMPTY
        """The state before this one."""
        self.generation = 0
        """Counts the rebalances; a member that names an older one is told so."""
        self.protocol_type: str | None = None
        """None until a first member joins: offsets alone do not make one."""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """group.instance.id to the member id that holds it."""
        self.pending_joins: set[str] = set()
        """Ids that were handed out and have not come back (KIP-394)."""
        self.pending_syncs: set[str] = set()
        """Members of this generation that have not asked for their assignment."""
        self.member_added = False
        """Somebody new came while the first rebalance waits."""
        self.subscribed_topics: frozenset[str] | None = frozenset()
        """None if some member's subscription cannot be read."""

    # ------------------------------------------------------------------ the door

    def become(self, state: GroupState, now_ms: int) -> None:
        """The only place where the state changes."""
        assert state in TABLE[self.state].next, f"{self.group_id}: {self.state} to {state}"
        self.came_from, self.state, self.since_ms = self.state, state, now_ms

    def check(self) -> None:
        """Assert what must hold between two events."""
        waiting = [m for m in self.members.values() if m.awaiting_join]
        syncing = [m for m in self.members.values() if m.awaiting_sync]
        if self.state in (EMPTY, DEAD):
            assert not self.members, "an empty group has no members"
            assert not self.static_members
        if self.state is not PREPARING:
            assert not waiting, "only PreparingRebalance lets a join wait"
        if self.state is not COMPLETING:
            assert not syncing, "only CompletingRebalance lets a sync wait"
        if self.state in (COMPLETING, STABLE):
            assert self.members, "a generation has members"
            assert self.leader in self.members, "the leader is a member"
            assert self.protocol in self.candidates(), "all members know the protocol"
            assert self.pending_syncs <= set(self.members)
        assert not self.pending_joins & set(self.members)
        for instance_id, member_id in self.static_members.items():
            assert self.members[member_id].group_instance_id == instance_id
        assert len(self.static_members) == sum(
            m.group_instance_id is not None for m in self.members.values()
        )

    # ------------------------------------------------------------------ members

    def validate(self, member_id: str, group_instance_id: str | None) -> Member:
        """The member; raises `UnknownMemberId`, or `FencedInstanceId` where another took its place."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                raise UnknownMemberId
            if holder != member_id:
                raise FencedInstanceId
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId
        return member

    def add(self, member: Member, protocol_type: str) -> None:
        """Take a member in; the first becomes leader and settles the protocol type."""
        if not self.members:
            self.leader = member.member_id
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Let a member go; if it was the leader, one that has joined already is preferred as the next."""
        member = self.members.pop(member_id)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        self.pending_syncs.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self._joined() or self.members), None)

    def replace_static(self, old_id: str, new_id: str) -> Member:
        """Give a static member's place to a new member id; the old id is fenced from now on."""
        renamed: dict[str, Member] = {}
        for member_id, member in self.members.items():
            renamed[new_id if member_id == old_id else member_id] = member
        member = self.members[old_id]
        self.members = renamed
        member.member_id = new_id
        assert member.group_instance_id is not None
        self.static_members[member.group_instance_id] = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs = (self.pending_syncs - {old_id}) | {new_id}
        if self.leader == old_id:
            self.leader = new_id
        return member

    def elect_joined_leader(self) -> bool:
        """See to it that the leader is one that has joined; False if nobody has."""
        joined = self._joined()
        if self.leader not in joined:
            if not joined:
                return False
            self.leader = joined[0]
        return True

    def _joined(self) -> list[str]:
        return [each.member_id for each in self.members.values() if each.awaiting_join]

    @property
    def all_joined(self) -> bool:
        """Every member's join waits, and no id that was handed out is still on its way."""
        return not self.pending_joins and len(self._joined()) == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks for."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    # ------------------------------------------------------------------ protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may join."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        candidates = self.candidates()
        return protocol_type == self.protocol_type and any(
            name in candidates for name, _ in protocols
        )

    def candidates(self) -> frozenset[str]:
        """The protocols that every member knows."""
        known = [frozenset(name for name, _ in each.protocols) for each in self.members.values()]
        return frozenset.intersection(*known) if known else frozenset()

    def select_protocol(self) -> str:
        """The candidate with the most votes; the earlier vote wins a tie."""
        candidates = self.candidates()
        votes = Counter(each.vote(candidates) for each in self.members.values())
        return votes.most_common(1)[0][0]

    def next_generation(self, now_ms: int) -> None:
        """All have joined: settle the protocol and wait for the leader's assignment."""
        self.generation += 1
        self.protocol = self.select_protocol()
        self.pending_syncs = set(self.members)
        self._read_subscriptions()
        self.become(COMPLETING, now_ms)

    def is_subscribed(self, topic: str) -> bool:
        """Whether members read this topic; a subscription that cannot be read may hold any topic."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def _read_subscriptions(self) -> None:
        self.subscribed_topics = None
        if not self.members:
            self.subscribed_topics = frozenset()
        elif self.uses_consumer_protocol and self.protocol is not None:
            topics = [maybe_topics(m.metadata(self.protocol)) for m in self.members.values()]
            if None not in topics:
                self.subscribed_topics = frozenset().union(*(each or () for each in topics))

    # ------------------------------------------------------------------ records

    def to_record(self, assignments: dict[str, bytes], now_ms: int) -> Change:
        """This generation with its assignments, as it is stored."""
        return self._record(
            self.generation, self.protocol, self.leader, now_ms, self.members.values(), assignments
        )

    def to_empty_record(self, now_ms: int) -> Change:
        """The generation that nobody is in any more."""
        return self._record(self.generation + 1, None, None, now_ms, (), {})

    def _record(
        self,
        generation: int,
        protocol: str | None,
        leader: str | None,
        now_ms: int,
        members: Iterable[Member],
        assignments: dict[str, bytes],
    ) -> Change:
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=generation,
            protocol=protocol,
            leader=leader,
            current_state_timestamp=now_ms,
            members=[
                MemberMetadata(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    rebalance_timeout=each.rebalance_timeout_ms,
                    session_timeout=each.session_timeout_ms,
                    subscription=each.metadata(protocol),
                    assignment=assignments.get(each.member_id, b""),
                )
                for each in members
            ],
        )
        return Change(GroupMetadataKey(group=self.group_id), value)

    def replay(self, value: GroupMetadataValue) -> None:
        """Take in a recorded generation, live or at load."""
        self.generation = value.generation
        self.protocol_type = value.protocol_type or self.protocol_type
        self.protocol = value.protocol
        for each in value.members:
            self._replay_member(each)
        gone = set(self.members) - {each.member_id for each in value.members}
        for member_id in gone:
            self.remove(member_id)
        self.leader = value.leader
        self._enter_recorded(STABLE if value.members else EMPTY, value.current_state_timestamp)
        self._read_subscriptions()

    def _replay_member(self, each: MemberMetadata) -> None:
        holder = self.static_members.get(each.group_instance_id or "", each.member_id)
        if holder != each.member_id:
            self.replace_static(holder, each.member_id)
        member = self.members.get(each.member_id)
        if member is None or member.is_loaded:
            # Only the metadata for the chosen protocol is stored; the member sends the rest when it rejoins.
            timeout = (
                each.rebalance_timeout if each.rebalance_timeout >= 0 else each.session_timeout
            )
            member = Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                timeout,
                each.session_timeout,
                ((self.protocol or "", each.subscription),),
                is_loaded=True,
            )
            self.members[each.member_id] = member
            if each.group_instance_id is not None:
                self.static_members[each.group_instance_id] = each.member_id
        member.assignment = each.assignment

    def _enter_recorded(self, state: GroupState, now_ms: int) -> None:
        if state is STABLE and self.state is EMPTY:
            # At load there is no rebalance between a record and the next.
            self.state = STABLE
        elif state is EMPTY and self.state is STABLE:
            self.state = EMPTY
        elif self.state is not state:
            self.become(state, now_ms)
        self.since_ms = now_ms
