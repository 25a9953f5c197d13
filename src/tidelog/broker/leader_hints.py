"""Where a client should go instead: the leader of a partition that this broker does not lead (KIP-951)."""

from collections.abc import Iterable

from tidelog.broker.addresses import address_of
from tidelog.broker.context import Services
from tidelog.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower
from tidelog.network.peer import Peer
from tidelog.protocol.messages.produce import NodeEndpoint


def current_leader(
    services: Services, topic: str, index: int, error: KafkaError
) -> tuple[int, int] | None:
    """The leader's id and epoch, if `error` is one that a new leader explains."""
    if not isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch):
        return None
    found = services.image().topics.get(topic)
    if found is None or not 0 <= index < len(found.partitions):
        return None
    state = found.partitions[index]
    if isinstance(error, NotLeaderOrFollower) and state.leader == services.broker_id:
        return None  # it is not known who does (`cluster/lease.py`)
    return (state.leader, state.leader_epoch) if state.leader >= 0 else None


def node_endpoints(
    services: Services, leaders: Iterable[int], peer: Peer | None = None
) -> list[NodeEndpoint]:
    """How `peer` reaches the leaders; where it is not given, those with an address of their own."""
    brokers = services.image().brokers
    told = []
    for leader in sorted(leaders):
        broker = brokers.get(leader)
        if broker is None or not broker.endpoints:
            continue
        host, port = broker.endpoints[0][1:] if peer is None else address_of(broker, peer)
        if host:
            told.append(NodeEndpoint(node_id=leader, host=host, port=port, rack=broker.rack))
    return told
