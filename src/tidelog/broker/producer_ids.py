"""Hands out producer ids: a block at a time comes from the controller, so an id is never given twice."""

import asyncio

from tidelog.cluster.control import Control
from tidelog.names import ProducerId


class ProducerIds:
    """The broker's stock of producer ids; what is left of a block when the broker stops is lost."""

    def __init__(self, controller: Control) -> None:
        self._controller = controller
        self._block = iter(range(0))
        self._refilling = asyncio.Lock()

    async def next(self) -> ProducerId:
        """An id that no producer has had."""
        found = next(self._block, None)
        if found is None:
            async with self._refilling:
                # Whoever waited for the lock finds the block that the first one fetched.
                found = next(self._block, None)
                if found is None:
                    self._block = iter(await self._controller.allocate_producer_ids())
                    found = next(self._block)
        return ProducerId(found)
