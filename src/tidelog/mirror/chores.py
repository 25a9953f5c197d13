"""What a mirror does beside passing on: look whether both sides are there, keep topics alike, take groups along."""

import asyncio
import logging
import re

from tidelog.client.admin import AsyncAdmin
from tidelog.errors import KafkaError, TidelogError, UnknownTopicOrPartition
from tidelog.mirror.offset_map import OffsetMap
from tidelog.mirror.options import MirrorOptions
from tidelog.mirror.status import LaneStatus
from tidelog.mirror.topics import TopicKeeper
from tidelog.names import TopicPartition

_log = logging.getLogger(__name__)

_PING_EVERY_S = 2.0
_PING_S = 3.0


class Chores:
    """The tasks of one session; a failure of theirs is told, and is the session's only if it is a fault of ours."""

    def __init__(
        self,
        source_name: str,
        options: MirrorOptions,
        status: LaneStatus,
        source: AsyncAdmin,
        target: AsyncAdmin,
        keeper: TopicKeeper,
        map: OffsetMap,
    ) -> None:
        self._prefix = options.prefix_for(source_name)
        self._own_groups = options.group + "."
        self._options = options
        self._status = status
        self._sides = {"source": source, "target": target}
        self._keeper = keeper
        self._map = map
        self._groups = re.compile(options.groups) if options.groups else None
        self.topics: set[str] = set()
        """Those of which this process has, or had, a partition."""
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        for side in self._sides:
            self._tasks.append(asyncio.ensure_future(self._ping(side)))
        self._tasks.append(asyncio.ensure_future(self._look()))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def check(self) -> None:
        """Raise what ended a task, if anything did."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise TidelogError(f"a mirror's chore failed: {error!r}") from error

    async def _ping(self, side: str) -> None:
        """Know, and say, whether a side can be reached."""
        admin = self._sides[side]
        while True:
            try:
                async with asyncio.timeout(_PING_S):
                    await admin._cluster.refresh([])
            except (KafkaError, TimeoutError, OSError) as error:
                reason = str(error) or "no answer"
                if side not in self._status.down:
                    _log.warning("the %s cannot be reached: %s", side, reason)
                self._status.down[side] = reason
            else:
                if self._status.down.pop(side, None) is not None:
                    _log.warning("the %s can be reached again", side)
            await asyncio.sleep(_PING_EVERY_S)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._options.look_interval_s)
            try:
                await self._keeper.ensure(self.topics)
                if self._groups is not None:
                    await self._take_groups_along(self._groups)
            except UnknownTopicOrPartition as error:
                _log.info("a topic has gone: %s", error)
                self.topics &= set(await self._sides["source"].list_topics(internal=True))
            except (KafkaError, TimeoutError, OSError) as error:
                self._status.failed(str(error))
                _log.warning("looking for changes: %s", error)

    async def _take_groups_along(self, wanted: re.Pattern[str]) -> None:
        source, target = self._sides["source"], self._sides["target"]
        for group in await source.list_groups():
            name = group.group_id
            if not wanted.fullmatch(name) or name.startswith(self._own_groups):
                continue
            here = await source.group_offsets(name)
            translated = self._translated({tp: each.offset for tp, each in here.items()})
            if not translated:
                continue
            there = await target.group_offsets(name)
            # Forward only: a group that has moved to the target goes its own way there.
            new = {
                tp: offset
                for tp, offset in translated.items()
                if tp not in there or there[tp].offset < offset
            }
            if not new:
                continue
            try:
                await target.alter_group_offsets(name, new)
            except KafkaError as error:
                # It has members at the target: it has moved, and commits for itself.
                _log.info("offsets of group %s were not taken along: %s", name, error)
                continue
            self._status.translated.setdefault(name, {}).update(new)

    def _translated(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = {}
        for tp, offset in offsets.items():
            # Only what this process passes on: another knows more about its own.
            if tp in self._status.partitions:
                there = self._map.translate(tp, offset)
                if there is not None:
                    found[TopicPartition(self._prefix + tp.topic, tp.partition)] = there
        return found
