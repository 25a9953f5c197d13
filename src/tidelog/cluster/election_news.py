"""What a decision of the controller changed about who leads: counted, and told in one line each with the reason.

Values in, values out; `tell` writes to the log.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidelog.cluster.image import NO_LEADER, Image, PartitionState
from tidelog.cluster.metadata import PartitionChangeRecord, Record
from tidelog.measures import Durations

log = logging.getLogger(__name__)

_STOPPING = "is stopping"
_TOLD_AT_ONCE = 100
"""When a broker of ten thousand partitions dies, the cluster must not wait for its log to be written."""


class Elections:
    """Of all controllers that this broker has been."""

    def __init__(self) -> None:
        self.times = Durations()
        """Of decisions that gave partitions another leader; one for each partition."""
        self.unclean = 0


class Elected(NamedTuple):
    """A partition whose leader is another one now, or none."""

    topic: str
    partition: int
    before: PartitionState
    after: PartitionState
    unclean: bool
    """The new leader may lack committed records."""
    reason: str


def elected(before: Image, after: Image, records: Sequence[Record]) -> Iterator[Elected]:
    """The elections among `records`, which lead from one image to the other."""
    for record in records:
        if not isinstance(record, PartitionChangeRecord) or record.leader is None:
            continue
        old = before.maybe_partition(record.topic_id, record.index)
        new = after.maybe_partition(record.topic_id, record.index)
        if old is None or new is None or old.leader == new.leader:
            continue
        unclean = new.leader != NO_LEADER and new.leader not in (*old.isr, *old.eligible)
        if record.replicas is not None:
            unclean = False  # a reassignment ends when its leader has told that the new replicas are in sync
        reason = _reason(after, old, new)
        name = after.topic_names[record.topic_id]
        yield Elected(name, record.index, old, new, unclean, reason)


def tell(found: Sequence[Elected]) -> None:
    """One line each, up to a bound."""
    for each in found[:_TOLD_AT_ONCE]:
        where = f"{each.topic}-{each.partition}"
        if each.after.leader == NO_LEADER:
            # The last broker of a cluster that is stopped leaves all without a leader.
            level = logging.WARNING if each.reason.endswith(_STOPPING) else logging.ERROR
            log.log(level, "%s has no leader any more: %s", where, each.reason)
        elif each.unclean:
            log.error(
                "%s is led by broker %d, which was not in sync: committed records may be lost; %s",
                where, each.after.leader, each.reason,
            )  # fmt: skip
        else:
            log.info(
                "%s is led by broker %d in epoch %d: %s",
                where, each.after.leader, each.after.leader_epoch, each.reason,
            )  # fmt: skip
    if len(found) > _TOLD_AT_ONCE:
        log.info("%d more partitions have another leader", len(found) - _TOLD_AT_ONCE)


def _reason(after: Image, old: PartitionState, new: PartitionState) -> str:
    if old.leader == NO_LEADER:
        return "it had no leader"
    broker = after.brokers.get(old.leader)
    if broker is None or broker.fenced:
        return f"broker {old.leader} is gone"
    if broker.stopping:
        return f"broker {old.leader} {_STOPPING}"
    if old.leader not in new.replicas:
        return f"broker {old.leader} holds it no longer"
    if new.leader == new.replicas[0]:
        return f"it is preferred to broker {old.leader}"
    if old.leader not in new.isr:
        return f"broker {old.leader} is not in sync any more"
    return f"broker {old.leader} led it before"
