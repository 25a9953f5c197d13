"""DescribeClientQuotas (48): quotas of users, client ids and addresses (KIP-546).

Versions: 1 is flexible.  Absent: nothing.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE_CONFIGS, cluster
from tidelog.broker.quota_messages import kinds, parts_of
from tidelog.errors import InvalidRequest
from tidelog.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_EXACT, _DEFAULT, _ANY = 0, 1, 2


@handles(DescribeClientQuotasRequest, "0-1", allow=cluster(DESCRIBE_CONFIGS))
async def describe_client_quotas(
    request: DescribeClientQuotasRequest, ctx: Context
) -> DescribeClientQuotasResponse:
    asked = {each.entity_type: each for each in request.components}
    if len(asked) < len(request.components):
        raise InvalidRequest("the filter names a kind of entity twice")
    for each in asked.values():
        if each.entity_type not in kinds() or each.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise InvalidRequest(
                f"quotas cannot be filtered by {each.entity_type!r} with match type {each.match_type}"
            )
    entries = []
    for entity, values in ctx.broker.image().access.limits.by_entity.items():
        parts = dict(parts_of(entity))
        if _matches(parts, asked, request.strict):
            entries.append(
                EntryData(
                    entity=[EntityData(entity_type=k, entity_name=v) for k, v in parts.items()],
                    values=[ValueData(key=k, value=v) for k, v in values.items()],
                )
            )
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _matches(parts: dict[str, str | None], asked: dict[str, ComponentData], strict: bool) -> bool:
    """Whether an entity has all that is asked for, and, if strict, nothing else."""
    if strict and parts.keys() - asked.keys():
        return False
    for kind, each in asked.items():
        if kind not in parts:
            return False
        if each.match_type == _EXACT and parts[kind] != each.match:
            return False
        if each.match_type == _DEFAULT and parts[kind] is not None:
            return False
    return True
