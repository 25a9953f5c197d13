"""IncrementalAlterConfigs (44): set, reset, append to or subtract from settings of topics or brokers (KIP-339).

Versions: 0-1 differ in form only.  Topic settings are in force when the answer is sent.  Absent: settings of loggers, client
metrics and groups.
"""

from tidelog.broker.configs import Alteration, Change, Operation, alter_allowed
from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import by_item
from tidelog.errors import InvalidRequest, KafkaError
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handles(IncrementalAlterConfigsRequest, "0-1", allow=by_item, controller=True)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, ctx: Context
) -> IncrementalAlterConfigsResponse:
    wanted: list[Alteration] = []
    outcomes: list[KafkaError | None] = []
    good: list[int] = []
    for resource in request.resources:
        try:
            wanted.append(_alteration(resource))
            good.append(len(outcomes))
            outcomes.append(None)
        except KafkaError as error:
            outcomes.append(error)
    altered = await alter_allowed(wanted, ctx, validate_only=request.validate_only)
    for position, outcome in zip(good, altered, strict=True):
        outcomes[position] = outcome
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each, error in zip(request.resources, outcomes, strict=True)
        ]
    )


def _alteration(resource: AlterConfigsResource) -> Alteration:
    changes = []
    for each in resource.configs:
        if each.config_operation not in set(Operation):
            raise InvalidRequest(f"{each.config_operation} is not an operation on a setting")
        changes.append(Change(each.name, Operation(each.config_operation), each.value))
    return Alteration(resource.resource_type, resource.resource_name, changes)
