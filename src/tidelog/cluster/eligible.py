"""Replicas that have left the ISR and still have every committed record: they may lead again (KIP-966).

While fewer replicas are in sync than min.insync.replicas asks for, nothing is committed.  So whoever left when that
began, or later, has missed nothing that counts.  They matter when the last in-sync replica turns out to have lost
records: then these lead, and it has to follow.  A replica whose disk failed is eligible as well, and leads when the disk is back:
where the others have lost records, theirs is the only whole copy.

`min.insync.replicas` is the same for the controller and for the leaders (`shared.py`); when it changes, nobody is eligible.
"""

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from tidelog.cluster.image import MIN_IN_SYNC, TOPIC, Image, PartitionState, changed
from tidelog.cluster.metadata import ConfigRecord, PartitionChangeRecord, Record


def with_eligible(image: Image, records: Iterable[Record]) -> list[Record]:
    """The same records, and what they mean for who is eligible."""
    states: dict[tuple[UUID, int], PartitionState] = {}
    told: list[Record] = []
    for record in records:
        if isinstance(record, PartitionChangeRecord):
            key = (record.topic_id, record.index)
            state = states.get(key) or image.maybe_partition(*key)
            if state is not None:
                needed = image.min_in_sync(image.topic_names[record.topic_id])
                record = _with_eligible(state, record, needed)
                states[key] = changed(state, record)
        told.append(record)
    return told + _none_after_new_settings(image, told, states)


def _with_eligible(
    state: PartitionState, record: PartitionChangeRecord, min_in_sync: int
) -> PartitionChangeRecord:
    if record.eligible is not None:
        return record  # whoever decided knows better
    after = changed(state, record)
    eligible: tuple[int, ...] = ()
    if len(after.isr) < min(min_in_sync, len(after.replicas)):
        had_all = {*state.isr, *state.eligible}.difference(after.isr)
        eligible = tuple(each for each in after.replicas if each in had_all)
    return record if eligible == state.eligible else replace(record, eligible=eligible)


def _none_after_new_settings(
    image: Image, records: list[Record], states: dict[tuple[UUID, int], PartitionState]
) -> list[Record]:
    """With a smaller min.insync.replicas leaders commit again at once, without those who left."""
    names = {
        each.name if each.resource == TOPIC else None
        for each in records
        if isinstance(each, ConfigRecord) and each.key == MIN_IN_SYNC
    }
    if not names:
        return []
    return [
        PartitionChangeRecord(topic.id, index, eligible=())
        for topic in image.topics.values()
        if None in names or topic.name in names
        for index, state in enumerate(topic.partitions)
        if states.get((topic.id, index), state).eligible
    ]
