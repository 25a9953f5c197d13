"""The way of one member to its target, one step a heartbeat.

              target changed, and it owns partitions that it must give up
    STABLE ────────────────────────────────────────────► UNREVOKED_PARTITIONS
      │  ▲                                                      │ it has given them up
      │  │ others gave up what it waits for                     ▼
      │  └──────────────────────────────────────── UNRELEASED_PARTITIONS (or STABLE)
      └── others still own partitions of its target ───────────►

A partition is handed to a member only when nobody owns it: revoked before assigned.
"""

from collections.abc import Callable
from dataclasses import replace

from tidelog.coordination.groups.assignors.spec import Assignment, Place
from tidelog.coordination.groups.consumer.member import Member, MemberState


def reconcile(
    member: Member,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    is_free: Callable[[Place], bool],
) -> Member:
    """The member after this heartbeat.  `owned` is what it says it owns; None if it did not say."""
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS and (
        owned is None or owned & member.revoking
    ):
        return member
    kept = member.assigned & target
    to_revoke = member.assigned - target
    if to_revoke and (owned is None or owned & to_revoke):
        return replace(
            member, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=to_revoke
        )
    wanted = target - kept
    granted = frozenset(place for place in wanted if is_free(place))
    all_granted = len(granted) == len(wanted)
    return replace(
        member,
        state=MemberState.STABLE if all_granted else MemberState.UNRELEASED_PARTITIONS,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned=kept | granted,
        revoking=frozenset(),
    )
