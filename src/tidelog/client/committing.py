"""Commits offsets for one consumer: when it is told to, now and then, and before partitions go.

What is committed without being asked for is what is *settled*: done with, because the reader came back for more.  A place
that was found at the end of a partition is committed at once: unlike any other it cannot be found again, and until it is
committed whoever comes after a member that died would begin at a later end, and skip what was written in between.
Commits do not overtake one another.  A partition that was deleted is left out; the others are committed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import TypeVar

from tidelog.client.assignment import Assignment
from tidelog.client.cluster import Cluster, UnknownTopic, note_coordinator_error
from tidelog.client.group_requests import CommittedOffset, offset_commit, offsets_given
from tidelog.client.membership import Membership
from tidelog.client.metrics import ConsumerMetrics
from tidelog.client.settings import ConsumerSettings
from tidelog.errors import KafkaError, SettingsError, StaleMemberEpoch, UnknownTopicOrPartition
from tidelog.names import TopicPartition
from tidelog.protocol.schema import ZERO_UUID

_log = logging.getLogger(__name__)

T = TypeVar("T")

Offsets = Mapping[TopicPartition, int | CommittedOffset]
OnCommit = Callable[[Mapping[TopicPartition, int]], None]

_QUIET_S = 10.0
"""How long a commit that nobody asked for is tried: what it holds up is worth more than a few messages that come twice."""

_UNKNOWN_TOPIC_PATIENCE_S = 2.0
"""A topic may have been created a moment ago."""


class Committer:
    """Commits for one consumer; lives on its loop."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        assignment: Assignment,
        metrics: ConsumerMetrics,
        *,
        on_commit: OnCommit | None = None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._assignment = assignment
        self._metrics = metrics
        self._on_commit = on_commit
        self._committed: dict[TopicPartition, tuple[int, int]] = {}
        """What was committed at last, and the epoch of the place that it is of: others may commit once it is not ours."""
        self._lock = asyncio.Lock()
        self._now = asyncio.Event()
        """Something is to be committed before its time."""
        self._task: asyncio.Task[None] | None = None
        self._asked: set[asyncio.Task[None]] = set()
        """Commits that nobody waits for."""
        self.membership: Membership | None = None

    @property
    def group(self) -> str:
        if not self._settings.group_id:
            raise SettingsError(
                "group.id is not set, so there is nothing to commit to; give the consumer one"
            )
        return self._settings.group_id

    @property
    def by_itself(self) -> bool:
        return self._settings.enable_auto_commit and bool(self._settings.group_id)

    def start(self) -> None:
        """Commit now and then from now on, if that is wanted."""
        if self.by_itself and self._task is None:
            self._task = asyncio.ensure_future(self._commit_now_and_then())

    def commit_settled_now(self) -> None:
        """Do not wait for the time at which settled offsets are committed next, if that is done without being asked for."""
        self._now.set()

    async def stop(self) -> None:
        """Commit nothing more by itself; what was asked for is waited for."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*self._asked, return_exceptions=True)

    def abandon(self) -> None:
        """Give up what is under way."""
        for task in (self._task, *self._asked):
            if task is not None:
                task.cancel()

    async def commit(self, offsets: Offsets) -> None:
        """Commit these offsets; raises the first failure."""
        await self._send(offsets, None)

    def commit_soon(self, offsets: Offsets) -> "asyncio.Task[None]":
        """Commit these without being waited for; a failure is told in the log, and on the task."""
        task = asyncio.ensure_future(self.commit(offsets))
        self._asked.add(task)
        task.add_done_callback(self._tell)
        return task

    async def commit_settled(self, gone: Collection[TopicPartition] | None = None) -> None:
        """Commit what is done with, of partitions that go or of all, if that is done without being asked for."""
        if not self.by_itself:
            return
        settled = self._assignment.commitable(settled=True)
        new = {
            tp: at
            for tp, at in settled.items()
            if (gone is None or tp in gone)
            and self._committed.get(tp) != (at.offset, self._epoch_of(tp))
            and not self._is_of_another_topic(tp)
        }
        try:
            await self._send(new, _QUIET_S)
        except KafkaError as error:
            _log.warning("offsets of group %s were not committed: %s", self.group, error)

    async def at_group(self, ask: Callable[[], Awaitable[T]], timeout_s: float | None = None) -> T:
        """Ask the group's coordinator, again if need be."""

        async def attempt() -> T:
            try:
                return await ask()
            except KafkaError as error:
                note_coordinator_error(self._cluster, self.group, error.code)
                raise

        return await self._cluster.retrying(attempt, timeout_s)

    async def _commit_now_and_then(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.auto_commit_interval_ms / 1000):
                    await self._now.wait()
            self._now.clear()
            try:
                await self.commit_settled()
            except Exception:  # noqa: BLE001 - the task's root: a fault of ours must not stop all committing
                _log.exception("committing failed in a way that was not expected")

    async def _send(self, offsets: Offsets, timeout_s: float | None) -> None:
        group = self.group
        left = offsets_given(offsets)
        if not left:
            return
        wanted = dict(left)
        epochs = {tp: self._epoch_of(tp) for tp in wanted}
        gone: dict[TopicPartition, KafkaError] = {}
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + (_UNKNOWN_TOPIC_PATIENCE_S if timeout_s is None else 0)

        async def ask() -> None:
            errors = await self._ask(group, left)
            for tp in [tp for tp in left if tp not in errors]:
                self._committed[tp] = left.pop(tp).offset, epochs[tp]
            unknown = [tp for tp, e in errors.items() if isinstance(e, UnknownTopicOrPartition)]
            if unknown and loop.time() >= patient_until:
                for tp in await self._deleted(unknown):
                    gone[tp] = errors.pop(tp)
                    self._committed[tp] = left.pop(tp).offset, epochs[tp]  # not to be tried again
            for error in errors.values():
                raise error

        async with self._lock:
            asked_at = self._metrics.clock()
            await self.at_group(ask, timeout_s)
            self._metrics.commit_latency.record((self._metrics.clock() - asked_at) * 1000)
        if self._on_commit is not None and len(gone) < len(wanted):
            self._on_commit({tp: each.offset for tp, each in wanted.items() if tp not in gone})
        if gone:
            names = ", ".join(str(tp) for tp in sorted(gone))
            raise UnknownTopic(f"{names}: deleted, so nothing can be committed there")

    async def _ask(
        self, group: str, wanted: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, KafkaError]:
        member = self.membership
        if member is None:
            return await offset_commit(self._cluster, group, wanted)
        while True:
            generation = member.generation
            errors = await offset_commit(
                self._cluster,
                group,
                wanted,
                generation=generation,
                member_id=member.member_id,
                instance_id=member.instance_id,
            )
            stale = any(isinstance(each, StaleMemberEpoch) for each in errors.values())
            if not stale or member.generation <= generation:
                return errors
            # It was raised meanwhile (KIP-848).

    def _epoch_of(self, tp: TopicPartition) -> int:
        state = self._assignment.states.get(tp)
        return -1 if state is None else state.epoch

    def _is_of_another_topic(self, tp: TopicPartition) -> bool:
        """Whether the topic was deleted and created again since it was read: its offsets would be taken for the new one's."""
        state, info = self._assignment.states.get(tp), self._cluster.topics.get(tp.topic)
        return (
            state is not None
            and state.topic_id is not None
            and info is not None
            and info.id not in (state.topic_id, ZERO_UUID)
        )

    async def _deleted(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Which of these are not there any more; those that we do not read are none of our business."""
        ours = [tp for tp in partitions if tp in self._assignment.states]
        if not ours:
            return []
        await self._cluster.refresh({tp.topic for tp in ours})
        topics = self._cluster.topics
        return [
            tp
            for tp in ours
            if tp.topic not in topics or tp.partition not in topics[tp.topic].partitions
        ]

    def _tell(self, task: "asyncio.Task[None]") -> None:
        self._asked.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("offsets of group %s were not committed: %s", self.group, error)
