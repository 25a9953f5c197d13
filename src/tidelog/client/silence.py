"""Brokers that do not answer: whether to go on waiting for one is decided by asking another.

A broker that stands still (SIGSTOP, a machine that hangs) keeps its connections open, so that a request would wait for its
whole time-out, 30 s by default.  The cluster knows earlier: when the broker's session is over, it is in the metadata no more.
So while a request waits for long, another broker is asked; if the silent one has left the cluster its connections are closed,
and what waited there is tried again elsewhere.  A broker that is only slow, or holds a request back on purpose (Fetch,
JoinGroup, acks=all), is still in the metadata and left alone.
"""

import asyncio
import logging
import random
from typing import TYPE_CHECKING, cast

from tidelog.client.connection import SILENCE_S, Connection
from tidelog.errors import KafkaError
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from tidelog.client.cluster import Cluster

_log = logging.getLogger(__name__)


class Silence:
    """Watches the connections of one cluster for silence."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._asking: dict[int, asyncio.Task[None]] = {}
        """By silent broker: the question about it."""

    def noticed(self, connection: Connection) -> None:
        """A request waits for long on this connection."""
        node = self._cluster.node_of(connection)
        if node is not None and node not in self._asking:
            task = asyncio.ensure_future(self._ask_about(node))
            self._asking[node] = task
            task.add_done_callback(lambda _: self._asking.pop(node, None))

    async def close(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_about(self, node: int) -> None:
        others = [each for each in self._cluster.nodes if each != node]
        # One that is silent as well is asked last.
        for other in sorted(random.sample(others, len(others)), key=self._cluster.is_silent):
            try:
                async with asyncio.timeout(SILENCE_S):
                    connection = await self._cluster.connection(other)
                    answer = await connection.ask(MetadataRequest(topics=[]), timeout_s=SILENCE_S)
            except (KafkaError, TimeoutError, OSError) as error:
                _log.debug("broker %d did not say how broker %d is: %s", other, node, error)
                continue
            found = cast(MetadataResponse, answer)
            if all(each.node_id != node for each in found.brokers):
                _log.info("broker %d does not answer, and has left the cluster", node)
                self._cluster.note_brokers(found)
                self._cluster.close_node(
                    node, f"broker {node} did not answer, and has left the cluster"
                )
            return
