"""BrokerRegistration (62): a broker that starts makes itself known to the controller.

Versions: 3 tells of a clean stop by the epoch before it (KIP-966).  Asked again under the same incarnation, the answer
is the same.  The one feature is the metadata version that the broker can read (`cluster/versions.py`).  Absent: log directories,
migration from ZooKeeper.
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import CLUSTER_ACTION, cluster
from tidelog.cluster.metadata import BrokerRecord
from tidelog.cluster.versions import FEATURE
from tidelog.errors import InconsistentClusterId
from tidelog.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)


@handles(BrokerRegistrationRequest, "0-4", allow=cluster(CLUSTER_ACTION))
async def broker_registration(
    request: BrokerRegistrationRequest, ctx: Context
) -> BrokerRegistrationResponse:
    if request.cluster_id != ctx.broker.cluster_id:
        raise InconsistentClusterId
    record = BrokerRecord(
        request.broker_id,
        tuple((each.name, each.host, each.port) for each in request.listeners),
        request.rack,
        str(request.incarnation_id),
        fenced=True,
    )
    versions = [each.max_supported_version for each in request.features if each.name == FEATURE]
    controller = ctx.broker.controller.local
    return BrokerRegistrationResponse(
        broker_epoch=await controller.register(
            record, request.previous_broker_epoch, max(versions, default=1)
        )
    )
