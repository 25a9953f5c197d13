"""What moves: ends and sizes of logs, and the lags of groups, looked at every few seconds and kept for a quarter of an hour.

Rates are differences of two looks.  A log that shrank, because retention or compaction took something, says nothing about what
came in: such a step counts as none.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import field

from tidelog.client.admin import AsyncAdmin, TopicDescription
from tidelog.dataclass import dataclass
from tidelog.errors import ClusterAuthorizationFailed, KafkaError, TidelogError
from tidelog.names import TopicPartition

_log = logging.getLogger(__name__)

KEPT_S = 15 * 60
EVERY_S = 5.0
_GROUPS = 100
_LATEST = -1


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the cluster."""

    at: float
    """Seconds since 1970."""
    ends: dict[str, int]
    """By topic, over its partitions."""
    sizes: dict[str, int]
    """Bytes of the largest replica of each partition, by topic."""
    lags: dict[str, int]
    """By group."""


@dataclass(frozen=True, slots=True)
class Series:
    """Rates over time; the lists are equally long."""

    times: list[float] = field(default_factory=list)
    messages_per_second: list[float] = field(default_factory=list)
    bytes_per_second: list[float] = field(default_factory=list)


class Sampler:
    """Looks again and again while it runs."""

    def __init__(self, admin: AsyncAdmin) -> None:
        self._admin = admin
        self._looks: deque[Look] = deque(maxlen=int(KEPT_S / EVERY_S))
        self._task: asyncio.Task[None] | None = None
        self.problem: str | None = None
        """Why the last look failed."""

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def series(self, topic: str | None = None) -> Series:
        """Rates of one topic, or of all together."""
        found = Series()
        for before, after in zip(self._looks, list(self._looks)[1:], strict=False):
            seconds = after.at - before.at
            if seconds <= 0:
                continue
            found.times.append(round(after.at, 1))
            messages = _grown(before.ends, after.ends, topic)
            found.messages_per_second.append(round(messages / seconds, 2))
            found.bytes_per_second.append(
                round(_grown(before.sizes, after.sizes, topic) / seconds, 1)
            )
        return found

    def rates(self) -> dict[str, tuple[float, float]]:
        """Messages and bytes a second, by topic, as of the last two looks."""
        if len(self._looks) < 2:
            return {}
        before, after = self._looks[-2], self._looks[-1]
        seconds = after.at - before.at
        if seconds <= 0:  # the clock was set back
            return {}
        return {
            name: (
                round(_grown(before.ends, after.ends, name) / seconds, 2),
                round(_grown(before.sizes, after.sizes, name) / seconds, 1),
            )
            for name in after.ends
        }

    def lag_trend(self, group: str) -> list[tuple[float, int]]:
        """The group's lag over time."""
        return [(round(each.at, 1), each.lags[group]) for each in self._looks if group in each.lags]

    async def look(self) -> None:
        """Look now."""
        topics = await self._admin.describe_topics(await self._admin.list_topics())
        led = [each for each in topics.values() if is_led(each)]
        found = await self._admin.list_offsets(dict.fromkeys(partitions_of(led), _LATEST))
        ends = {tp: each.offset for tp, each in found.items()}
        self._looks.append(
            Look(
                time.time(),
                _by_topic(ends, [each.name for each in led]),
                _by_topic(await self.sizes(), topics),
                await self._lags(ends),
            )
        )

    async def sizes(self) -> dict[TopicPartition, int]:
        """Bytes of the largest replica of each partition; none where the user may not know."""
        try:
            directories = await self._admin.describe_log_dirs()
        except ClusterAuthorizationFailed:
            return {}
        largest: dict[TopicPartition, int] = {}
        for of_broker in directories.values():
            for each in of_broker:
                for tp, replica in each.replicas.items():
                    largest[tp] = max(replica.size, largest.get(tp, 0))
        return largest

    async def _lags(self, ends: dict[TopicPartition, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        for listed in (await self._admin.list_groups())[:_GROUPS]:
            try:
                committed = await self._admin.group_offsets(listed.group_id)
            except KafkaError:
                continue  # it is gone, or not ours to see
            behind = [ends[tp] - each.offset for tp, each in committed.items() if tp in ends]
            found[listed.group_id] = sum(max(0, each) for each in behind)
        return found

    async def _run(self) -> None:
        while True:
            started = time.monotonic()
            try:
                await self.look()
                self.problem = None
            except TidelogError as error:
                if self.problem is None:
                    _log.info("the cluster cannot be sampled: %s", error)
                self.problem = str(error)
            except Exception as error:  # noqa: BLE001 - the task's root
                _log.exception("sampling failed")
                self.problem = repr(error)
            took = time.monotonic() - started
            # A cluster of many partitions is not asked all the time.
            await asyncio.sleep(max(EVERY_S - took, 4 * took))


def is_led(topic: TopicDescription) -> bool:
    """Whether all its partitions have leaders, who alone know where they end."""
    return all(each.leader >= 0 for each in topic.partitions)


def partitions_of(topics: Iterable[TopicDescription]) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions
    ]


def _by_topic(values: dict[TopicPartition, int], names: Iterable[str]) -> dict[str, int]:
    sums = dict.fromkeys(names, 0)
    for tp, value in values.items():
        if tp.topic in sums:
            sums[tp.topic] += value
    return sums


def _grown(before: dict[str, int], after: dict[str, int], topic: str | None) -> int:
    names = after if topic is None else [topic]
    return sum(
        max(0, after[name] - before[name]) for name in names if name in before and name in after
    )
