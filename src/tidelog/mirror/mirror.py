"""All sources of one target."""

import asyncio
from typing import Any

from tidelog.mirror.lane import Lane, SameCluster
from tidelog.mirror.options import MirrorOptions


class Mirror:
    """Mirrors until it is stopped; lives on the running loop."""

    def __init__(self, options: MirrorOptions) -> None:
        self.options = options
        self.lanes = [Lane(name, address, options) for name, address in options.named_sources()]
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Mirror all sources, each for itself, until `stop`; SettingsError if one of them is the target itself."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for lane in self.lanes:
                    tasks.create_task(lane.run(self._stopping))
        except* SameCluster as refused:
            raise refused.exceptions[0] from None

    def stop(self) -> None:
        """Finish what was taken, commit, and return from `run`."""
        self._stopping.set()

    def metrics(self) -> dict[str, Any]:
        """What the mirror has measured of itself, by source."""
        return {lane.name: lane.status.metrics() for lane in self.lanes}

    def lines(self) -> list[str]:
        """A line for each source, for a terminal."""
        return [lane.status.line() for lane in self.lanes]
