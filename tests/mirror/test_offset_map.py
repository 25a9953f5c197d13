"""Translated offsets never skip a record, and survive the topic that they are kept in."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.mirror.offset_map import SLOTS, OffsetMap
from tidelog.names import TopicPartition

TP = TopicPartition("orders", 3)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), min_size=1, max_size=40), st.data()
)
def test_nothing_is_lost_and_repeats_are_bounded(batches, data) -> None:
    """Batches of so many records, each with so many offsets lost before it at the target (markers)."""
    map = OffsetMap()
    there: dict[int, int] = {}
    source = target = 0
    for count, markers in batches:
        target += markers
        for _ in range(count):
            there[source] = target
            source, target = source + 1, target + 1
        map.note(TP, source, target)
    offset = data.draw(st.integers(0, source))
    found = map.translate(TP, offset)
    if found is None:
        assert offset < batches[0][0]
    else:
        assert all(there[each] >= found for each in range(offset, source))
        repeated = [each for each in range(offset) if there[each] >= found]
        assert len(repeated) < max(count for count, _ in batches)


def test_the_map_comes_back_from_its_topic() -> None:
    map, topic = OffsetMap(), {}
    for number in range(1, 3 * SLOTS):
        assert map.note(TP, number * 10, number * 11)
        key, value = map.record(TP)
        topic.pop(key, None)
        topic[key] = value  # as compaction leaves it
    assert len(topic) == SLOTS
    again = OffsetMap()
    for key, value in topic.items():
        again.replay(key, value)
    for offset in range(0, 30 * SLOTS, 7):
        assert again.translate(TP, offset) == map.translate(TP, offset)
    assert not again.note(TP, 5, 5)
    assert again.note(TP, 30 * SLOTS, 40 * SLOTS)
    assert again.record(TP)[0] not in list(topic)[-5:]
