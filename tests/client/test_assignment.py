"""The partitions of a consumer, without a broker."""

from tidelog.client.assignment import Assignment
from tidelog.client.decoding import Chunk
from tidelog.names import TopicPartition

TP = TopicPartition("t", 0)


def test_what_was_fetched_for_an_earlier_assignment_is_dropped() -> None:
    """A rebalance may give back the partition that it took: what is on its way meanwhile is of the time before."""
    assignment = Assignment(lambda: None)
    assignment.replace([TP])
    ((state, _, epoch),) = assignment.unplaced()
    assignment.place(state, epoch, 100)
    before = assignment.fetchable(1000)[TP]
    assignment.replace([])
    assignment.replace([TP])
    ((state, _, epoch),) = assignment.unplaced()
    assignment.place(state, epoch, 50)
    assignment.put(Chunk(TP, before[0], memoryview(b"x"), None, 200), before[1], 110)
    assert not state.chunks
    assert assignment.fetchable(1000)[TP][0] == 50


def test_what_was_fetched_before_a_seek_is_dropped() -> None:
    assignment = Assignment(lambda: None)
    assignment.replace([TP])
    assignment.seek(TP, offset=100)
    before = assignment.fetchable(1000)[TP]
    assignment.seek(TP, offset=50)
    assignment.put(Chunk(TP, before[0], memoryview(b"x"), None, 200), before[1], 110)
    assert not assignment.states[TP].chunks
    assert assignment.positions() == {TP: 50}


def test_one_place_is_taken_once_if_two_brokers_were_asked() -> None:
    assignment = Assignment(lambda: None)
    assignment.replace([TP])
    assignment.seek(TP, offset=100)
    _, epoch = assignment.fetchable(1000)[TP]
    chunk = Chunk(TP, 100, memoryview(b"x"), None, 200)
    assignment.put(chunk, epoch, 110)
    assignment.put(chunk, epoch, 110)
    assert len(assignment.states[TP].chunks) == 1
