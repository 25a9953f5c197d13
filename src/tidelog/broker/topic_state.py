"""A partition's state as clients should see it: what the image says, unless our own disk says otherwise."""

from dataclasses import replace

from tidelog.broker.context import Services
from tidelog.cluster.image import NO_LEADER, PartitionState, Topic


def visible_state(topic: Topic, index: int, broker: Services) -> tuple[PartitionState, list[int]]:
    """The state, and which replicas are offline.

    A partition that this broker should lead but cannot, because its directory failed, has no leader; nor has one that another
    may lead by now (`cluster/lease.py`).
    """
    state = topic.partitions[index]
    image = broker.image()
    brokers = image.brokers
    offline = [
        each
        for each in state.replicas
        if each not in brokers or brokers[each].fenced or each in state.offline
    ]
    if state.leader != broker.broker_id:
        return state, offline
    partition = broker.partitions.maybe_get(topic.name, index)
    if partition is None:
        offline = [*(each for each in offline if each != broker.broker_id), broker.broker_id]
        state = replace(state, leader=NO_LEADER)
    elif broker.lease.is_over and broker.lease.is_in_doubt(partition):
        state = replace(state, leader=NO_LEADER)
    return state, offline
