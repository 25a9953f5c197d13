"""WriteTxnMarkers (27): write the end of transactions into partitions.

Version 1 is flexible.  Coordinators send it to other brokers, and administrators to abort a hanging transaction: one
that a partition holds open although no coordinator knows of it.  Absent: 2.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.coordination.runtime import EndOfTransaction
from tidelog.errors import KafkaError
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


@handles(WriteTxnMarkersRequest, "0-1")
async def write_txn_markers(
    request: WriteTxnMarkersRequest, ctx: Context
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(markers=[await _written(each, ctx) for each in request.markers])


async def _written(marker: WritableTxnMarker, ctx: Context) -> WritableTxnMarkerResult:
    end = EndOfTransaction(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
    )
    result = WritableTxnMarkerResult(producer_id=marker.producer_id)
    for topic in marker.topics:
        answered = WritableTxnMarkerTopicResult(name=topic.name)
        result.topics.append(answered)
        for index in topic.partition_indexes:
            answered.partitions.append(
                WritableTxnMarkerPartitionResult(
                    partition_index=index, error_code=await _write(end, (topic.name, index), ctx)
                )
            )
    return result


async def _write(end: EndOfTransaction, place: tuple[str, int], ctx: Context) -> int:
    try:
        await ctx.broker.transactions.markers.write(end, place)
    except KafkaError as error:
        return error.code
    return 0
