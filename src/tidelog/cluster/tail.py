"""Follow the metadata log into an image: every broker does, the controller too.

    tail = Tail(metastore)
    tail.subscribe(listener)          # listener(image, delta), called in order, on the loop
    await tail.load()                 # snapshot, then what came after it
    task = asyncio.create_task(tail.run())

A listener sees every delta once.  The first one, from `load`, is against the empty image.  What takes long is done
before, by those that `prepare`: while they wait, everybody else still sees the old image.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from tidelog.cluster import metadata
from tidelog.cluster.image import Delta, Image
from tidelog.cluster.metadata import Record
from tidelog.metastore.contract import Compacted, Metastore, MetastoreError

log = logging.getLogger(__name__)

Listener = Callable[[Image, Delta], None]
Preparation = Callable[[Image, Delta], Awaitable[None]]

_RETRY_SECONDS = 1.0


class Tail:
    """The newest image this process has, and who wants to hear of changes."""

    def __init__(self, metastore: Metastore, image: Image | None = None) -> None:
        """Follows the log from `image` on; without one, from its beginning."""
        self._metastore = metastore
        self._preparations: list[Preparation] = []
        self._listeners: list[Listener] = []
        self._applying = asyncio.Lock()
        self.image = image or Image()
        self.is_away = False
        """Whether the metastore cannot be reached."""
        self.log_end = 0
        """How far the log is known to go."""

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def prepare(self, preparation: Preparation) -> None:
        """Await `preparation` before each new image is shown.  It may be cut short, and is then called again."""
        self._preparations.append(preparation)

    async def load(self) -> None:
        """Bring the image to the log's present end."""
        snapshot = await self._metastore.snapshot()
        if snapshot is not None:
            await self._apply(snapshot.data, snapshot.number)
        await self.catch_up()

    async def catch_up(self) -> Image:
        """Apply what the log holds by now, and return the image after it."""
        async with self._applying:
            while True:
                try:
                    entries = await self._metastore.read(self.image.number)
                except Compacted:
                    await self._restart_from_snapshot()
                    continue
                if not entries:
                    return self.image
                for entry in entries:
                    await self._apply(entry.data, entry.number)

    async def advance(self, records: Sequence[Record], number: int) -> None:
        """Apply what this process has just appended as entry `number`, without reading it back."""
        async with self._applying:
            if number == self.image.number + 1:
                await self._show(*self.image.apply(records, number))

    async def run(self) -> None:
        """Catch up whenever the log grows, until cancelled."""
        while True:
            try:
                tick = await self._metastore.tick()
                self.log_end = tick.log_end
                if self.is_away:
                    log.warning("the metastore is back")
                    self.is_away = False
                if tick.log_end > self.image.number:
                    await self.catch_up()
                else:
                    await self._metastore.wait(tick)
            except MetastoreError as error:
                if not self.is_away:
                    self.is_away = True
                    log.warning(
                        "the metastore is away: %s; this broker goes on serving what it leads",
                        error,
                    )
                await asyncio.sleep(_RETRY_SECONDS)

    async def _apply(self, data: bytes, number: int) -> None:
        image, delta = self.image.apply(metadata.decode(data), number)
        await self._show(image, delta)

    async def _restart_from_snapshot(self) -> None:
        """This broker fell behind a snapshot: go from the old image to that one in one step."""
        snapshot = await self._metastore.snapshot()
        assert snapshot is not None, "a log is only cut below a snapshot"
        fresh, _ = Image().apply(metadata.decode(snapshot.data), snapshot.number)
        await self._show(fresh, difference(self.image, fresh))

    async def _show(self, image: Image, delta: Delta) -> None:
        for preparation in self._preparations:
            await preparation(image, delta)
        self.image = image
        for listener in self._listeners:
            listener(image, delta)


def difference(old: Image, new: Image) -> Delta:
    """What leads from one image to another, as if it had come as one batch."""
    delta = Delta()
    for topic in old.topics.values():
        if topic.id not in new.topic_names:
            delta.deleted.append(topic)
    for topic in new.topics.values():
        before = old.topic_by_id(topic.id)
        if before is None:
            delta.created.append(topic)
        elif before != topic:
            count = len(before.partitions)
            delta.partitions[topic.name] = {
                index
                for index, state in enumerate(topic.partitions)
                if index >= count or before.partitions[index] != state
            }
    resources = old.configs.keys() | new.configs.keys()
    delta.configs = {each for each in resources if old.config(each) != new.config(each)}
    ids = old.brokers.keys() | new.brokers.keys()
    delta.brokers = {each for each in ids if old.brokers.get(each) != new.brokers.get(each)}
    return delta
