"""Hands out producer ids: a block at a time comes from the controller, so an id is never given twice."""

import asyncio

from tidelog.cluster.control import Control
from tidelog.errors import CoordinatorLoadInProgress, KafkaError
from tidelog.names import ProducerId


class ProducerIds:
    """The broker's stock of producer ids; what is left of a block when the broker stops is lost."""

    def __init__(self, controller: Control) -> None:
        self._controller = controller
        self._block = iter(range(0))
        self._refilling: asyncio.Task[None] | None = None
        """Whoever needs a block waits for the same, and hears the same if there is none."""

    async def next(self) -> ProducerId:
        """An id that no producer has had; `CoordinatorLoadInProgress` while there is none to be had."""
        while True:
            found = next(self._block, None)
            if found is not None:
                return ProducerId(found)
            if self._refilling is None or self._refilling.done():
                self._refilling = asyncio.get_running_loop().create_task(self._refill())
                self._refilling.add_done_callback(_heard)
            try:
                await asyncio.shield(self._refilling)
            except KafkaError as error:
                # What happens between brokers means nothing to producers; this they know, and come again (Kafka: the same).
                raise CoordinatorLoadInProgress(
                    f"no producer ids can be had at the moment: {error}"
                ) from error

    async def _refill(self) -> None:
        self._block = iter(await self._controller.allocate_producer_ids())


def _heard(task: "asyncio.Task[None]") -> None:
    """Whoever waited for it may be gone: then its error is no news."""
    if not task.cancelled():
        task.exception()
