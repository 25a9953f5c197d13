"""Where a client should go instead: the leader of a partition that this broker does not lead (KIP-951)."""

from collections.abc import Iterable

from tidelog.broker.context import Services
from tidelog.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower
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
    return (state.leader, state.leader_epoch) if state.leader >= 0 else None


def node_endpoints(services: Services, leaders: Iterable[int]) -> list[NodeEndpoint]:
    """How the leaders are reached."""
    brokers = services.image().brokers
    return [
        NodeEndpoint(
            node_id=leader,
            host=brokers[leader].endpoints[0][1],
            port=brokers[leader].endpoints[0][2],
            rack=brokers[leader].rack,
        )
        for leader in sorted(leaders)
        if leader in brokers and brokers[leader].endpoints
    ]
