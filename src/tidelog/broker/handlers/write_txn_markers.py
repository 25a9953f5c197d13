"""WriteTxnMarkers (27): write the end of transactions into partitions.

Version 1 is flexible.  Coordinators send it to other brokers, and administrators to abort a hanging transaction: one
that a partition holds open although no coordinator knows of it.  Absent: 2.
"""

import asyncio
from collections.abc import Mapping

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import ALTER, CLUSTER_ACTION, by_item
from tidelog.broker.turns import Turns
from tidelog.coordination.runtime import EndOfTransaction
from tidelog.errors import ClusterAuthorizationFailed, KafkaError
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.security.acls import CLUSTER


@handles(WriteTxnMarkersRequest, "0-1", allow=by_item)
async def write_txn_markers(
    request: WriteTxnMarkersRequest, ctx: Context
) -> WriteTxnMarkersResponse:
    if not ctx.may(ALTER, CLUSTER, quietly=True) and not ctx.may(CLUSTER_ACTION, CLUSTER):
        refused = [_refused(each) for each in request.markers]
        return WriteTxnMarkersResponse(markers=refused)
    turns = Turns()
    tasks = [
        asyncio.ensure_future(_written(each, ctx)) async for each in turns.over(request.markers)
    ]
    return WriteTxnMarkersResponse(markers=list(await asyncio.gather(*tasks)))


async def _written(marker: WritableTxnMarker, ctx: Context) -> WritableTxnMarkerResult:
    end = EndOfTransaction(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
    )
    places = [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    outcomes = await ctx.broker.transactions.markers.write_here(end, places)
    return _told(marker, outcomes)


def _told(
    marker: WritableTxnMarker, outcomes: Mapping[tuple[str, int], KafkaError | None]
) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=_code(outcomes[topic.name, index])
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )


def _refused(marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    places = [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    return _told(marker, dict.fromkeys(places, ClusterAuthorizationFailed()))


def _code(error: KafkaError | None) -> int:
    return 0 if error is None else error.code
