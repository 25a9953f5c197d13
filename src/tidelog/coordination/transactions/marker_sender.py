"""Has other brokers write markers: WriteTxnMarkers, one request at a time to each broker.

What comes while a request is under way goes out together in the next, so the number of requests follows the
round-trip time and not the number of transactions.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, cast

from tidelog.cluster.peers import Peers
from tidelog.coordination.runtime import EndOfTransaction
from tidelog.coordination.transactions.transaction import Place
from tidelog.errors import KafkaError, UnknownServerError, error_of
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Outcomes = dict[Place, KafkaError | None]

_MARKERS_AT_ONCE = 500
_PURPOSE = "markers"
"""Nothing that waits for markers may stand before them: docs/decisions/transactions.md."""


class _Wanted(NamedTuple):
    end: EndOfTransaction
    places: Sequence[Place]
    done: "asyncio.Future[Outcomes]"


class MarkerSender:
    """The markers on their way to other brokers."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._queues: dict[int, list[_Wanted]] = {}
        """By broker; a broker is in here as long as a task sends to it."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(
        self, broker_id: int, end: EndOfTransaction, places: Sequence[Place]
    ) -> Outcomes:
        """Have `broker_id` write these markers; an error that kept all from being written is told for each."""
        loop = asyncio.get_running_loop()
        wanted = _Wanted(end, places, loop.create_future())
        queue = self._queues.get(broker_id)
        if queue is None:
            self._queues[broker_id] = [wanted]
            task = loop.create_task(self._send_all(broker_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            queue.append(wanted)
        return await wanted.done

    def hang_up(self, broker_id: int) -> None:
        """The broker is gone: do not wait for its answers."""
        self._peers.hang_up(broker_id, _PURPOSE)

    async def stop(self) -> None:
        """Send no more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_all(self, broker_id: int) -> None:
        queue = self._queues[broker_id]
        try:
            while queue:
                now = queue[:_MARKERS_AT_ONCE]
                del queue[:_MARKERS_AT_ONCE]
                await self._send(broker_id, now)
        finally:
            del self._queues[broker_id]
            for each in queue:
                each.done.cancel()

    async def _send(self, broker_id: int, wanted: list[_Wanted]) -> None:
        request = WriteTxnMarkersRequest(markers=[_marker(each) for each in wanted])
        try:
            answer = await self._peers.ask(broker_id, request, purpose=_PURPOSE)
            results = cast(WriteTxnMarkersResponse, answer).markers
        except KafkaError as error:
            for each in wanted:
                _tell(each, dict.fromkeys(each.places, error))
            return
        except BaseException:
            for each in wanted:
                each.done.cancel()
            raise
        # Results come in the order of the markers; whoever sends fewer is not to be believed.
        for number, each in enumerate(wanted):
            found = _codes(results[number]) if number < len(results) else {}
            _tell(each, {place: _error(found.get(place, -1)) for place in each.places})


def _marker(wanted: _Wanted) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in wanted.places:
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=wanted.end.producer_id,
        producer_epoch=wanted.end.producer_epoch,
        transaction_result=wanted.end.commit,
        coordinator_epoch=wanted.end.coordinator_epoch,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ],
    )


def _codes(result: WritableTxnMarkerResult) -> dict[Place, int]:
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in result.topics
        for each in topic.partitions
    }


def _error(code: int) -> KafkaError | None:
    if code == 0:
        return None
    return UnknownServerError() if code < 0 else error_of(code)


def _tell(wanted: _Wanted, outcomes: Outcomes) -> None:
    if not wanted.done.done():
        wanted.done.set_result(outcomes)
