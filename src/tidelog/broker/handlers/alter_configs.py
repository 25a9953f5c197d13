"""AlterConfigs (33): replace all settings of topics or brokers; what is not named goes back to its default.

Versions: 0-2 differ in form only.  Kept for old clients; IncrementalAlterConfigs is the one to use.  Absent: settings of loggers.
"""

from tidelog.broker.configs import Alteration, Change, Operation, alter_allowed
from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import by_item
from tidelog.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@handles(AlterConfigsRequest, "0-2", allow=by_item, controller=True)
async def alter_configs(request: AlterConfigsRequest, ctx: Context) -> AlterConfigsResponse:
    wanted = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            [Change(each.name, Operation.SET, each.value) for each in resource.configs],
            replace=True,
        )
        for resource in request.resources
    ]
    outcomes = await alter_allowed(wanted, ctx, validate_only=request.validate_only)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
                resource_type=each.resource_type,
                resource_name=each.name,
            )
            for each, error in zip(wanted, outcomes, strict=True)
        ]
    )
