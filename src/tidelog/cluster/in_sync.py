"""Keeping the in-sync replicas right: what leaders propose goes to the controller, what it says comes back.

    in_sync = InSync(partitions, control.alter_partition, clock, random, max_lag_ms)
    in_sync.propose(partition)       # its proposal is sent with the next request
    await in_sync.run()              # a background task

One request is under way at a time, with all proposals that have come up.  The controller's answer or the image, whichever
is here first, settles a proposal; the other finds it settled.  Until one of them is here the proposal stands,
because nobody knows whether it was carried out.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from tidelog.clock import Clock
from tidelog.cluster.image import PartitionState
from tidelog.cluster.isr import IsrChange
from tidelog.cluster.partition import Partition
from tidelog.cluster.partitions import Partitions
from tidelog.cluster.replica import Proposal
from tidelog.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NewLeaderElected,
    OperationNotAttempted,
    TidelogError,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

_log = logging.getLogger(__name__)

AlterPartition = Callable[[Sequence[IsrChange]], Awaitable[list[PartitionState | KafkaError]]]

_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0
_MOST_AT_ONCE = 1000
_SILENCE_LOOK_S = 1.0
"""How often it is looked whether a follower is silent: one comparison for each broker."""

_REFUSED = (IneligibleReplica, OperationNotAttempted)
"""The controller is sure that nothing was done, and that it knows no newer state."""
_OUTDATED = (
    FencedLeaderEpoch,
    InvalidUpdateVersion,
    InvalidRequest,
    NewLeaderElected,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
"""The image will bring a newer state."""


class InSync:
    """The broker's conversation with the controller about ISRs."""

    def __init__(
        self,
        partitions: Partitions,
        alter: AlterPartition,
        clock: Clock,
        random: Random,
        max_lag_ms: Callable[[], int],
        is_live: Callable[[int], bool] = lambda _: True,
        silence_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """`is_live` tells a broker that lags from one that is gone.

        `silence_ms`: a follower that has not fetched anything here for so long leaves where enough others are in sync; 0 for never.
        """
        self._partitions = partitions
        self._alter = alter
        self._clock = clock
        self._random = random
        self._max_lag_ms = max_lag_ms
        self._is_live = is_live
        self._silence_ms = silence_ms
        self.shrinks = 0
        self.expands = 0
        """Of the ISRs of partitions that are led here."""
        self._due: dict[Partition, None] = {}
        self._woken = asyncio.Event()

    def changed(
        self, partition: Partition, before: tuple[int, ...], after: tuple[int, ...]
    ) -> None:
        """The controller has settled an ISR: if it is another one, one line with the reason."""
        if not before or set(before) == set(after):
            return
        left = [each for each in before if each not in after]
        joined = [each for each in after if each not in before]
        self.shrinks += bool(left)
        self.expands += bool(joined)
        reasons = [f"broker {each} {self._why_left(each)}" for each in left]
        reasons += [f"broker {each} has caught up" for each in joined]
        _log.log(
            logging.WARNING if left else logging.INFO,
            "%s: in-sync replicas %s are now %s: %s",
            partition.topic_partition, list(before), list(after), ", ".join(reasons),
        )  # fmt: skip

    def _why_left(self, broker_id: int) -> str:
        if self._is_live(broker_id):
            return f"is silent, or has lagged for more than replica.lag.time.max.ms={self._max_lag_ms()}"
        return "is gone or stopping"

    def propose(self, partition: Partition) -> None:
        """Send the partition's proposal."""
        self._due[partition] = None
        self._woken.set()

    async def run(self) -> None:
        """Send proposals, and look for replicas that lag, until cancelled."""
        failures = 0
        look_at = self._next_look()
        while True:
            now = self._clock.monotonic()
            if now >= look_at or self._somebody_is_silent():
                look_at = self._next_look()
                for partition in self._partitions:
                    partition.propose_shrink()
            if self._due:
                failures = 0 if await self._send() else failures + 1
            if failures:
                pause_s = min(_PAUSE_S * 2 ** min(failures - 1, 10), _LONGEST_PAUSE_S)
                await asyncio.sleep(pause_s * (0.8 + 0.4 * self._random.random()))
            elif not self._due:
                self._woken.clear()
                try:
                    left_s = max(look_at - self._clock.monotonic(), 0.001)
                    async with asyncio.timeout(min(left_s, _SILENCE_LOOK_S)):
                        await self._woken.wait()
                except TimeoutError:
                    pass

    def silent_ms(self) -> int:
        """Who has not fetched since then cannot reach this broker."""
        silence_ms = self._silence_ms()
        return self._now_ms() - silence_ms if silence_ms else -(1 << 63)

    def _somebody_is_silent(self) -> bool:
        then_ms, heard_ms = self.silent_ms(), self._partitions.heard_ms
        for broker_id, heard in list(heard_ms.items()):
            if not self._is_live(broker_id):
                del heard_ms[broker_id]  # it is gone, which the controller has noticed
            elif heard < then_ms:
                return True
        return False

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _next_look(self) -> float:
        return self._clock.monotonic() + self._max_lag_ms() / 2000

    async def _send(self) -> bool:
        """One request with what is due; whether nothing has to be asked again."""
        batch: list[tuple[Partition, Proposal]] = []
        for partition in list(self._due)[:_MOST_AT_ONCE]:
            del self._due[partition]
            proposal = _proposal_of(partition)
            if proposal is not None:
                batch.append((partition, proposal))
        if not batch:
            return True
        outcomes: Sequence[PartitionState | KafkaError]
        try:
            outcomes = await self._alter([_change(*each) for each in batch])
        except TidelogError as error:
            _log.info("in-sync replicas cannot be changed at the moment: %s", error)
            outcomes = [UnknownServerError()] * len(batch)
        except Exception:  # noqa: BLE001  (the root of the task)
            _log.exception("the change of in-sync replicas failed; it is tried again")
            outcomes = [UnknownServerError()] * len(batch)
        again = False
        for (partition, proposal), outcome in zip(batch, outcomes, strict=True):
            if _proposal_of(partition) is not proposal:
                continue  # the image was quicker, or leadership is lost
            if self._settled(partition, proposal, outcome):
                continue
            self._due[partition] = None
            again = True
        return not again

    def _settled(
        self, partition: Partition, proposal: Proposal, outcome: PartitionState | KafkaError
    ) -> bool:
        where = partition.topic_partition
        if isinstance(outcome, PartitionState):
            partition.settle_isr(outcome)
            return True
        if isinstance(outcome, _REFUSED):
            _log.info("%s: %s were refused: %s", where, list(proposal.isr), outcome)
            assert partition.followers is not None
            partition.followers.withdraw()
            return True
        if isinstance(outcome, _OUTDATED):
            _log.debug("%s: %s came too late: %s", where, list(proposal.isr), outcome)
            return True
        return False


def _proposal_of(partition: Partition) -> Proposal | None:
    return None if partition.followers is None else partition.followers.proposal


def _change(partition: Partition, proposal: Proposal) -> IsrChange:
    return IsrChange(
        partition.topic_id,
        partition.index,
        proposal.leader_epoch,
        proposal.partition_epoch,
        proposal.isr,
        proposal.broker_epochs,
    )
