"""AlterClientQuotas (49): set or remove quotas of users, client ids and addresses (KIP-546).

Versions: 1 is flexible.  In force when the answer is sent.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import ALTER_CONFIGS, by_item
from tidelog.broker.quota_messages import entity_of
from tidelog.cluster.image import Image
from tidelog.cluster.metadata import QuotaRecord, Record
from tidelog.errors import KafkaError
from tidelog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntryData,
)
from tidelog.quotas.limits import check_value
from tidelog.security.acls import CLUSTER


@handles(AlterClientQuotasRequest, "0-1", allow=by_item, controller=True)
async def alter_client_quotas(
    request: AlterClientQuotasRequest, ctx: Context
) -> AlterClientQuotasResponse:
    records: list[Record] = []
    results: list[AlterClientQuotasResponseEntryData] = []
    for each in request.entries:
        result = AlterClientQuotasResponseEntryData(error_message=None, entity=each.entity)
        results.append(result)
        try:
            ctx.check(ALTER_CONFIGS, CLUSTER)
            records += _records(each)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message

    def decide(image: Image) -> tuple[list[Record], None]:
        return records, None

    if records and not request.validate_only:
        await ctx.broker.controller.submit(decide)
    return AlterClientQuotasResponse(entries=results)


def _records(entry: EntryData) -> list[Record]:
    entity = entity_of((each.entity_type, each.entity_name) for each in entry.entity)
    records: list[Record] = []
    for op in entry.ops:
        if not op.remove:
            check_value(entity, op.key, op.value)
        value = None if op.remove else op.value
        records.append(QuotaRecord(entity.user, entity.client_id, entity.ip, op.key, value))
    return records
