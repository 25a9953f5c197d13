"""ListConfigResources (74): what has settings (KIP-1142).

Versions: 0 lists client metrics; 1 any type.  Absent: client metrics and groups, which have no settings here and are
never listed.
"""

from tidelog.broker.configs import ResourceType
from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE_CONFIGS, cluster
from tidelog.errors import UnsupportedVersion
from tidelog.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


@handles(ListConfigResourcesRequest, "0-1", allow=cluster(DESCRIBE_CONFIGS))
async def list_config_resources(
    request: ListConfigResourcesRequest, ctx: Context
) -> ListConfigResourcesResponse:
    asked = set(request.resource_types)
    if ctx.api_version == 0:
        asked = {int(ResourceType.CLIENT_METRICS)}
    if not asked <= {int(each) for each in ResourceType}:
        raise UnsupportedVersion("a type of resource is not known")
    image = ctx.broker.image()
    names = {
        ResourceType.TOPIC: list(image.topics),
        ResourceType.BROKER: [str(each) for each in image.brokers],
        ResourceType.BROKER_LOGGER: [str(each) for each in image.brokers],
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, found in names.items()
            if not asked or kind in asked
            for name in found
        ]
    )
