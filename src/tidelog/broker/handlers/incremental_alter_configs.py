"""IncrementalAlterConfigs (44): set, reset, append to or subtract from settings of topics or brokers (KIP-339).

Versions: 0-1 differ in form only.  Topic settings are in force when the answer is sent.  Levels of loggers (KIP-412) are set on
the broker that is asked, everything else by the controller.  Absent: settings of client metrics and groups.
"""

from tidelog.broker import loggers
from tidelog.broker.configs import (
    Alteration,
    Change,
    Operation,
    ResourceType,
    alter_allowed,
    check_allowed,
    check_broker,
)
from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import ALTER_CONFIGS, by_item
from tidelog.errors import InvalidRequest, KafkaError
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def _names_loggers(request: IncrementalAlterConfigsRequest) -> bool:
    return any(each.resource_type == ResourceType.BROKER_LOGGER for each in request.resources)


@handles(IncrementalAlterConfigsRequest, "0-1", allow=by_item, controller=True, here=_names_loggers)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, ctx: Context
) -> IncrementalAlterConfigsResponse:
    wanted: list[Alteration] = []
    outcomes: list[KafkaError | None] = []
    good: list[int] = []
    for resource in request.resources:
        try:
            alteration = _alteration(resource)
            if resource.resource_type == ResourceType.BROKER_LOGGER:
                _change_loggers(alteration, ctx, validate_only=request.validate_only)
            elif not ctx.broker.controller.is_active:
                raise InvalidRequest("loggers and other things cannot be changed in one request")
            else:
                wanted.append(alteration)
                good.append(len(outcomes))
            outcomes.append(None)
        except KafkaError as error:
            outcomes.append(error.kept())
    if wanted:
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


def _change_loggers(wanted: Alteration, ctx: Context, *, validate_only: bool) -> None:
    check_allowed(ctx, ALTER_CONFIGS, wanted.resource_type, wanted.name)
    check_broker(wanted.name, ctx.broker.broker_id)
    if any(each.operation in (Operation.APPEND, Operation.SUBTRACT) for each in wanted.changes):
        raise InvalidRequest("the level of a logger is not a list; set it, or delete it")
    if any(each.operation == Operation.SET and each.value is None for each in wanted.changes):
        raise InvalidRequest("a logger needs a level")
    levels = {
        each.key: None if each.operation == Operation.DELETE else each.value
        for each in wanted.changes
    }
    (loggers.check if validate_only else loggers.change)(levels)
