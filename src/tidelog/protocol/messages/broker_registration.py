"""BrokerRegistration (62): a broker that starts makes itself known to the controller (KIP-631).

Versions: 1 a flag of migrations from ZooKeeper; 2 log directories (KIP-858); 3 the epoch before a clean shutdown (KIP-966);
4 features whose lowest version is 0.
"""

from ..schema import (
    ZERO_UUID,
    Request,
    Response,
    Struct,
    boolean,
    field,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


class Listener(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class Feature(Struct):
    name: string = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class BrokerRegistrationRequest(Request, api_key=62, versions="0-4", flexible="0+"):
    broker_id: int32 = 0
    cluster_id: string = ""
    incarnation_id: uuid = ZERO_UUID
    listeners: list[Listener] = field(factory=list)
    features: list[Feature] = field(factory=list)
    rack: string | None = ""
    is_migrating_zk_broker: boolean = field("1+", default=False)
    log_dirs: list[uuid] = field("2+", factory=list)
    previous_broker_epoch: int64 = field("3+", default=-1)


class BrokerRegistrationResponse(Response, to=BrokerRegistrationRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    broker_epoch: int64 = -1
