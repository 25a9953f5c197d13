"""The course of a rebalance, and the timers of a classic group.

`rebalance` begins one, or sees whether the one that runs is complete; every rebalance passes `_prepare_rebalance`, which
logs its reason, and its joining ends in `_complete_join`.
"""

import logging
from collections.abc import Callable

from tidelog.coordination.groups.classic.answers import joined, members_of
from tidelog.coordination.groups.classic.group import ClassicGroup
from tidelog.coordination.groups.classic.states import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
)
from tidelog.coordination.groups.environment import Environment
from tidelog.coordination.groups.records import Change
from tidelog.coordination.runtime import Decision
from tidelog.errors import KafkaError, RebalanceInProgress, UnknownMemberId

log = logging.getLogger(__name__)

_LEAST_WAIT_MS = 100
"""Between two looks whether a static member has come back, though its rebalance timeout be 0."""

_EMPTY_AGAIN_MS = 500
"""Until it is tried again to record that a group has no members."""

Step = Decision[Change, None]


class Rebalancer:
    """Begins and ends rebalances."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    # ------------------------------------------------------------------ rebalance

    def rebalance(self, group: ClassicGroup, why: str, step: Step) -> None:
        """Begin a rebalance, or see whether the one that runs is now complete."""
        if group.state is PREPARING:
            self._maybe_complete_join(group, step)
        else:
            self._prepare_rebalance(group, why, step)

    def _prepare_rebalance(self, group: ClassicGroup, why: str, step: Step) -> None:
        self._env.counts.rebalances += 1
        log.info(
            "group %s rebalances from generation %d (%s, %d members): %s",
            group.group_id, group.generation, group.state.value, len(group.members), why,
        )  # fmt: skip
        now_ms = self._env.clock.now_ms()
        for member in group.members.values():
            if member.awaiting_sync is not None:
                step.answers.append((member.awaiting_sync, RebalanceInProgress()))
                member.awaiting_sync = None
                self.expect_sign_of_life(group, member.member_id, member.session_timeout_ms)
        group.pending_syncs.clear()
        self._env.timers.cancel(sync_timer(group))
        if group.state is EMPTY:
            group.become(PREPARING, now_ms)
            self._wait_for_more(group, max(0, group.rebalance_timeout_ms))
        else:
            group.become(PREPARING, now_ms)
            self._at(group, join_timer(group), group.rebalance_timeout_ms, self._complete_join)
            self._maybe_complete_join(group, step)

    def _wait_for_more(self, group: ClassicGroup, remaining_ms: int) -> None:
        """The first rebalance waits a little, and again while new members come, up to the rebalance timeout."""
        delay_ms = min(self._env.config().initial_rebalance_delay_ms, remaining_ms)
        group.member_added = False

        def waited(group: ClassicGroup, step: Step) -> None:
            if group.member_added and remaining_ms > delay_ms:
                self._wait_for_more(group, remaining_ms - delay_ms)
            else:
                self._complete_join(group, step)

        self._at(group, join_timer(group), delay_ms, waited)

    def _maybe_complete_join(self, group: ClassicGroup, step: Step) -> None:
        # The first rebalance ends by its timer alone; see `_wait_for_more`.
        if group.came_from is not EMPTY and group.all_joined:
            self._complete_join(group, step)

    def _complete_join(self, group: ClassicGroup, step: Step) -> None:
        """Joining is over: who has not come back is out, and the next generation begins."""
        if group.state is not PREPARING:
            return
        late = [m.member_id for m in group.members.values() if m.awaiting_join is None]
        for member_id in late:
            # A static member may be restarting: its session timeout decides, not the rebalance.
            if group.members[member_id].group_instance_id is None:
                log.info("group %s: %s did not rejoin in time", group.group_id, member_id)
                self._env.timers.cancel(session_timer(group, member_id))
                group.remove(member_id)
        if group.members and not group.elect_joined_leader():
            again_ms = max(group.rebalance_timeout_ms, _LEAST_WAIT_MS)
            self._at(group, join_timer(group), again_ms, self._complete_join)
            return
        if not group.members:
            self._become_empty(group, step)
            return
        self._env.timers.cancel(join_timer(group))
        group.next_generation(self._env.clock.now_ms())
        log.info(
            "group %s: generation %d has %d members, protocol %s, leader %s",
            group.group_id, group.generation, len(group.members), group.protocol, group.leader,
        )  # fmt: skip
        self._at(group, sync_timer(group), group.rebalance_timeout_ms, self._expire_syncs)
        for member in group.members.values():
            member.is_new = False
            if member.awaiting_join is not None:
                answer = joined(group, member, members_of(group))
                step.answers.append((member.awaiting_join, answer))
                member.awaiting_join = None
            if member.group_instance_id is None or member.member_id not in late:
                self.expect_sign_of_life(group, member.member_id, member.session_timeout_ms)

    def _become_empty(self, group: ClassicGroup, step: Step) -> None:
        """Record that nobody is left; should that fail, whoever asked for it is gone, so it is tried again from here."""
        if group.state is not PREPARING or group.members:
            return
        step.records.append(group.to_empty_record(self._env.clock.now_ms()))
        self._at(group, join_timer(group), _EMPTY_AGAIN_MS, self._become_empty)

        def emptied() -> None:
            self._env.timers.cancel(join_timer(group))
            log.info("group %s is empty as of generation %d", group.group_id, group.generation)

        assert step.then is None, "nothing else follows the end of a group"
        step.then = emptied

    def _expire_syncs(self, group: ClassicGroup, step: Step) -> None:
        """Members that joined but never asked for their assignment are out."""
        if group.state not in (COMPLETING, STABLE) or not group.pending_syncs:
            return
        late = sorted(group.pending_syncs)
        for member_id in late:
            self._env.timers.cancel(session_timer(group, member_id))
            group.remove(member_id)
        self._prepare_rebalance(group, f"{', '.join(late)} did not sync in time", step)

    def remove(self, group: ClassicGroup, member_id: str, error: KafkaError, step: Step) -> None:
        """Let a member go; its waiting requests hear `error`."""
        member = group.members[member_id]
        for waiting in (member.awaiting_join, member.awaiting_sync):
            if waiting is not None:
                step.answers.append((waiting, error))
        self._env.timers.cancel(session_timer(group, member_id))
        group.remove(member_id)

    def after_removal(self, group: ClassicGroup, why: str, step: Step) -> None:
        """Members are gone: the others share what they had."""
        if group.state in (STABLE, COMPLETING):
            self._prepare_rebalance(group, why, step)
        elif group.state is PREPARING:
            log.info("group %s, while it rebalances: %s", group.group_id, why)
            self._maybe_complete_join(group, step)

    # ------------------------------------------------------------------ timers

    def start_timers(self, group: ClassicGroup) -> None:
        """After load: members have a session timeout to show themselves."""
        for member in group.members.values():
            self.expect_sign_of_life(group, member.member_id, member.session_timeout_ms)

    def stop_timers(self, group: ClassicGroup) -> None:
        """The group is gone."""
        for member_id in [*group.members, *group.pending_joins]:
            self._env.timers.cancel(session_timer(group, member_id))
        self._env.timers.cancel(join_timer(group))
        self._env.timers.cancel(sync_timer(group))

    def expect_sign_of_life(self, group: ClassicGroup, member_id: str, within_ms: int) -> None:
        """Unless the member shows itself within this time, it is out."""

        def expired(group: ClassicGroup, step: Step) -> None:
            self._expiresession_timer(group, member_id, step)

        self._at(group, session_timer(group, member_id), within_ms, expired)

    def _expiresession_timer(self, group: ClassicGroup, member_id: str, step: Step) -> None:
        if member_id in group.pending_joins:
            group.pending_joins.discard(member_id)
            self.after_removal(group, f"{member_id} never joined", step)
            return
        member = group.members.get(member_id)
        if member is None or (member.is_waiting and not member.is_new):
            return
        self.remove(group, member_id, UnknownMemberId(), step)
        self.after_removal(group, f"{member_id} was silent for its session timeout", step)

    def _at(
        self,
        group: ClassicGroup,
        key: tuple[str, ...],
        delay_ms: int,
        act: Callable[[ClassicGroup, Step], None],
    ) -> None:
        def decide() -> Step:
            step: Step = Decision(None)
            if group.state is not DEAD:
                act(group, step)
            return step

        self._env.timers.schedule(key, delay_ms, decide)


def session_timer(group: ClassicGroup, member_id: str) -> tuple[str, ...]:
    return (group.group_id, "session", member_id)


def join_timer(group: ClassicGroup) -> tuple[str, ...]:
    return (group.group_id, "join")


def sync_timer(group: ClassicGroup) -> tuple[str, ...]:
    return (group.group_id, "sync")
