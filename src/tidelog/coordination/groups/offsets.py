"""Committed offsets: what is stored, what a transaction holds back, and what has expired.

`Offsets` is memory alone and changes only by `replay` and `end_transaction`; the decisions about offsets are in
`offset_decisions.py`.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.coordination.groups.records import Change
from tidelog.coordination.groups.records.offset_commit import OffsetCommitKey, OffsetCommitValue

Place = tuple[str, int]
"""Topic and partition."""


class CommittedOffset(NamedTuple):
    """A position, as a member committed it."""

    offset: int
    """Of the next record to read."""
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    """An expiry of its own, which OffsetCommit v2-4 may ask for; -1 for the broker's retention."""
    number: int = 0
    """Place among all records of the shard: the later of two commits holds."""

    def to_record(self, group_id: str, place: Place) -> Change:
        return Change(
            OffsetCommitKey(group=group_id, topic=place[0], partition=place[1]),
            OffsetCommitValue(
                offset=self.offset,
                leader_epoch=self.leader_epoch,
                metadata=self.metadata,
                commit_timestamp=self.commit_timestamp_ms,
                expire_timestamp=self.expire_timestamp_ms,
            ),
        )


def tombstone(group_id: str, place: Place) -> Change:
    """The offset is gone."""
    return Change(OffsetCommitKey(group=group_id, topic=place[0], partition=place[1]), None)


class Offsets:
    """The offsets of a shard's groups."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[Place, CommittedOffset]] = {}
        self._pending: dict[int, dict[str, dict[Place, CommittedOffset | None]]] = {}
        """By producer id: what its open transaction will commit if it ends well."""
        self._records = 0
        """Offset records seen so far."""

    def of(self, group_id: str) -> dict[Place, CommittedOffset]:
        """Everything that the group has committed; not to be changed."""
        return self._committed.get(group_id, {})

    def group_ids(self) -> list[str]:
        """Groups that have committed an offset, or may by an open transaction."""
        pending = (group_id for groups in self._pending.values() for group_id in groups)
        return list(dict.fromkeys([*self._committed, *pending]))

    def places_of(self, group_id: str) -> set[Place]:
        """Where the group has committed an offset, or an open transaction may still do so for it."""
        found = set(self.of(group_id))
        for groups in self._pending.values():
            found |= groups.get(group_id, {}).keys()
        return found

    def has_pending(self, group_id: str, place: Place | None = None) -> bool:
        """Whether an open transaction may still change this offset (or any offset of the group)."""
        return any(
            group_id in groups and (place is None or place in groups[group_id])
            for groups in self._pending.values()
        )

    def replay(self, change: Change) -> None:
        """Take in an offset record."""
        key, value = change.key, change.value
        assert isinstance(key, OffsetCommitKey)
        committed = None
        self._records += 1
        if isinstance(value, OffsetCommitValue):
            committed = CommittedOffset(
                value.offset,
                value.leader_epoch,
                value.metadata,
                value.commit_timestamp,
                value.expire_timestamp,
                self._records,
            )
        place = (key.topic, key.partition)
        if change.producer_id >= 0:
            groups = self._pending.setdefault(change.producer_id, {})
            groups.setdefault(key.group, {})[place] = committed
            return
        if committed is None:
            # A deleted offset must not come back when a transaction ends.
            for groups in self._pending.values():
                groups.get(key.group, {}).pop(place, None)
        self._put(key.group, place, committed)

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """The transaction's offsets count now, or never did."""
        for group_id, places in self._pending.pop(producer_id, {}).items():
            for place, committed in places.items():
                known = self.of(group_id).get(place)
                # A commit that came after the transaction's own, outside of it, is the newer one.
                is_newer = known is None or committed is None or committed.number > known.number
                if commit and is_newer:
                    self._put(group_id, place, committed)

    def expired(
        self,
        group_id: str,
        base_ms: Callable[[CommittedOffset], int],
        may_expire: Callable[[str], bool],
        retention_ms: int,
        now_ms: int,
    ) -> list[Place]:
        """Places whose offset has outlived its retention, counted from `base_ms` of it."""
        found: list[Place] = []
        for place, each in self.of(group_id).items():
            if not may_expire(place[0]) or self.has_pending(group_id, place):
                continue
            own = each.expire_timestamp_ms
            deadline_ms = own if own >= 0 else base_ms(each) + retention_ms
            if now_ms >= deadline_ms:
                found.append(place)
        return found

    def _put(self, group_id: str, place: Place, committed: CommittedOffset | None) -> None:
        if committed is not None:
            self._committed.setdefault(group_id, {})[place] = committed
            return
        places = self._committed.get(group_id)
        if places is not None:
            places.pop(place, None)
            if not places:
                del self._committed[group_id]
