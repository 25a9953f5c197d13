"""What a leader knows of the other replicas, and what follows from it: who is in sync, and what is committed.

    followers = Followers(broker_id, max_lag_ms, eligible)
    followers.assign(state, now_ms, log_end, epoch_start=…, afresh=True)
    followers.fetched(2, offset=17, …)             # a fetch from offset 17 says: I have all below 17
    followers.committed_end(own_end, now_ms, 1)    # where the high watermark may go

The in-sync replicas (ISR) are the controller's to change.  Until it has answered, a proposed newcomer counts already
when the high watermark is computed and one that is to be left out counts still: the *maximal* ISR (KIP-497) holds
whoever the controller may take for in sync, so that every one of them has what is committed.

Values in, values out: no clock, no log, no wire.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.cluster.image import PartitionState

UNKNOWN_OFFSET = -1
UNKNOWN_EPOCH = -1
_LONG_AGO = -1 << 62


class Follower:
    """The leader's book on one other replica."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "caught_up_ms",
        "fetched_ms",
        "leader_end_then",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_end_offset = UNKNOWN_OFFSET
        """It has every record below, as its last fetch said."""
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = UNKNOWN_EPOCH
        """Of the incarnation that fetched last (KIP-903)."""
        self.fetched_ms = _LONG_AGO
        self.leader_end_then = UNKNOWN_OFFSET
        """The leader's log end when it fetched last."""
        self.caught_up_ms = _LONG_AGO
        """The last time of which is known that it had all that the leader had then."""

    def begin(self, now_ms: int, leader_end: int, *, in_sync: bool, afresh: bool) -> None:
        """An epoch begins.  `afresh`: this broker did not lead before, and what it knew of the follower is stale."""
        if afresh:
            self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
            self.broker_epoch = UNKNOWN_EPOCH
            self.leader_end_then = UNKNOWN_OFFSET
            self.fetched_ms = _LONG_AGO
        else:
            self.leader_end_then = leader_end
            self.fetched_ms = now_ms if in_sync else _LONG_AGO
        # One that is out of sync must not hold back the high watermark.
        self.caught_up_ms = now_ms if in_sync else _LONG_AGO

    def fetched(
        self, offset: int, log_start: int, broker_epoch: int, now_ms: int, leader_end: int
    ) -> None:
        """It has asked for `offset`."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_then:
            # It has all that was there when it asked before: under steady small writes it never has more.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start
        self.broker_epoch = broker_epoch
        self.fetched_ms = now_ms
        self.leader_end_then = max(leader_end, self.leader_end_then)

    def left(self) -> None:
        """It is in sync no longer, perhaps of its own accord: nobody waits for it before it has shown anew that it keeps up."""
        self.caught_up_ms = self.fetched_ms = _LONG_AGO

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= max_lag_ms


class Proposal(NamedTuple):
    """A change of the ISR that the controller is asked for."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """Of the incarnations that are known to be in sync, in the order of `isr`; -1 for who is in it already."""


class Followers:
    """All other replicas of a partition that this broker leads."""

    __slots__ = (
        "_broker_id",
        "_eligible",
        "_max_lag_ms",
        "alone",
        "by_id",
        "epoch_start",
        "isr",
        "leader_epoch",
        "maximal_isr",
        "partition_epoch",
        "proposal",
        "replicas",
    )

    def __init__(
        self,
        broker_id: int,
        max_lag_ms: Callable[[], int],
        eligible: Callable[[int, int], bool],
    ) -> None:
        """`eligible(broker_id, broker_epoch)`: whether that incarnation is alive and may be in an ISR."""
        self._broker_id = broker_id
        self._max_lag_ms = max_lag_ms
        self._eligible = eligible
        self.by_id: dict[int, Follower] = {}
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        """As the controller last said."""
        self.maximal_isr: frozenset[int] = frozenset()
        self.alone = False
        """Nobody else is in the maximal ISR."""
        self.proposal: Proposal | None = None
        """Sent to the controller, and not yet answered.  At most one at a time."""
        self.leader_epoch = UNKNOWN_EPOCH
        self.partition_epoch = UNKNOWN_EPOCH
        self.epoch_start = 0
        """The log's end when the epoch began: who has less may lack committed records."""

    def assign(
        self, state: PartitionState, now_ms: int, leader_end: int, epoch_start: int, *, afresh: bool
    ) -> None:
        """The image says who the replicas are.  `afresh`: this broker has just become the leader."""
        new_epoch = state.leader_epoch != self.leader_epoch
        others = [each for each in state.replicas if each != self._broker_id]
        self.by_id = {each: self.by_id.get(each) or Follower(each) for each in others}
        self.replicas = state.replicas
        if new_epoch or afresh:
            for follower in self.by_id.values():
                in_sync = follower.broker_id in state.isr
                follower.begin(now_ms, leader_end, in_sync=in_sync, afresh=afresh)
        self.leader_epoch = state.leader_epoch
        self.epoch_start = epoch_start
        self.settle(state.isr, state.partition_epoch)

    def settle(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        """The controller has decided on the ISR; what was proposed before is answered with it."""
        # Invariant: the partition epoch never goes back.
        assert partition_epoch >= self.partition_epoch, (partition_epoch, self.partition_epoch)
        for left in set(self.isr).difference(isr, (self._broker_id,)):
            if left in self.by_id:
                self.by_id[left].left()
        self.isr = isr
        self.partition_epoch = partition_epoch
        self._proposed(None)

    def withdraw(self) -> None:
        """The controller refused the proposal, and it is sure that it was not carried out."""
        self._proposed(None)

    def fetched(
        self,
        broker_id: int,
        offset: int,
        log_start: int,
        broker_epoch: int,
        now_ms: int,
        leader_end: int,
    ) -> bool:
        """A follower asked for `offset`; whether the high watermark may move."""
        follower = self.by_id[broker_id]
        moved = offset != follower.log_end_offset
        follower.fetched(offset, log_start, broker_epoch, now_ms, leader_end)
        return moved

    def committed_end(self, own_end: int, now_ms: int, min_isr: int) -> int:
        """Where the high watermark may go: all below is on every replica that could become leader.

        UNKNOWN_OFFSET if too few are in sync to commit anything (KIP-966).
        """
        if not self.enough(min_isr):
            return UNKNOWN_OFFSET
        end = own_end
        for broker_id, follower in self.by_id.items():
            if follower.log_end_offset < end and (
                broker_id in self.maximal_isr or self._about_to_join(follower, own_end, now_ms)
            ):
                end = follower.log_end_offset
        return end

    def _about_to_join(self, follower: Follower, own_end: int, now_ms: int) -> bool:
        # Else the high watermark could run away from a follower that has nearly caught up, for ever.
        return (
            follower.log_end_offset != UNKNOWN_OFFSET
            and follower.is_caught_up(own_end, now_ms, self._max_lag_ms())
            and self._eligible(follower.broker_id, follower.broker_epoch)
        )

    def enough(self, min_isr: int) -> bool:
        """Whether `min_isr` replicas are in sync; more than there are cannot be asked for."""
        return len(self.isr) >= min(min_isr, len(self.replicas))

    def maybe_enough(self, min_isr: int) -> bool:
        """The same, with those whom the controller may have taken in already."""
        return len(self.maximal_isr) >= min(min_isr, len(self.replicas))

    def low_watermark(self, own_start: int) -> int:
        """The first offset that any replica on a live broker still has."""
        starts = [
            each.log_start_offset
            for each in self.by_id.values()
            if self._eligible(each.broker_id, UNKNOWN_EPOCH)
        ]
        return min([own_start, *starts])

    def joins(self, broker_id: int, high_watermark: int) -> bool:
        """Whether a follower that has just fetched should be proposed for the ISR."""
        if self.proposal is not None or broker_id in self.isr:
            return False
        follower = self.by_id[broker_id]
        return (
            follower.log_end_offset >= max(high_watermark, self.epoch_start)
            and self._eligible(broker_id, follower.broker_epoch)
        )  # fmt: skip

    def lagging(self, leader_end: int, now_ms: int) -> list[int]:
        """Members of the ISR that have not kept up; nobody while a proposal is under way."""
        if self.proposal is not None:
            return []
        max_lag_ms = self._max_lag_ms()
        found = []
        for broker_id in self.isr:
            follower = self.by_id.get(broker_id)
            if broker_id != self._broker_id and (
                follower is None or not follower.is_caught_up(leader_end, now_ms, max_lag_ms)
            ):
                found.append(broker_id)
        return found

    def silent(self, heard_ms: Mapping[int, int], then_ms: int, min_isr: int) -> list[int]:
        """Members of the ISR that have not fetched anything since; nobody if too few would be left to go on.

        `heard_ms`: when each was last heard, for whatever partition.
        """
        if self.proposal is not None:
            return []
        found = [
            broker_id
            for broker_id in self.isr
            if broker_id in self.by_id
            and max(heard_ms.get(broker_id, _LONG_AGO), self.by_id[broker_id].caught_up_ms)
            < then_ms
        ]
        return found if len(self.isr) - len(found) >= min(min_isr, len(self.replicas)) else []

    def heard_since(self, then_ms: int) -> frozenset[int]:
        """Those that have fetched since."""
        return frozenset(each for each, its in self.by_id.items() if its.fetched_ms > then_ms)

    def propose(self, isr: tuple[int, ...]) -> Proposal:
        """Note what the controller is asked for."""
        assert self.proposal is None, self.proposal
        assert self._broker_id in isr, isr
        epochs = tuple(
            UNKNOWN_EPOCH if each in self.isr or each not in self.by_id
            else self.by_id[each].broker_epoch
            for each in isr
        )  # fmt: skip
        proposal = Proposal(self.leader_epoch, self.partition_epoch, isr, epochs)
        self._proposed(proposal)
        return proposal

    def check(self) -> None:
        """Assert what always holds."""
        assert set(self.isr) <= self.maximal_isr
        assert self._broker_id not in self.by_id
        assert set(self.by_id) == set(self.replicas) - {self._broker_id}
        assert self.alone == (self.maximal_isr <= {self._broker_id})

    def _proposed(self, proposal: Proposal | None) -> None:
        self.proposal = proposal
        self.maximal_isr = frozenset(self.isr if proposal is None else (*self.isr, *proposal.isr))
        self.alone = self.maximal_isr <= {self._broker_id}
