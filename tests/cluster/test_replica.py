"""What a leader concludes from the fetches of its followers."""

import pytest

from tidelog.cluster.image import PartitionState
from tidelog.cluster.replica import UNKNOWN_OFFSET, Followers

LAG_MS = 1_000


def followers(isr=(1, 2, 3), eligible=lambda *_: True, **state) -> Followers:
    found = Followers(1, lambda: LAG_MS, eligible)
    replicas = state.pop("replicas", (1, 2, 3))
    leader_end = state.pop("leader_end", 0)
    found.assign(
        PartitionState(1, 5, 7, replicas, isr), 0, leader_end, epoch_start=leader_end, afresh=True
    )
    found.check()
    return found


def fetch(found: Followers, broker_id: int, offset: int, now_ms: int = 0, leader_end: int = 10):
    found.fetched(broker_id, offset, 0, 20 + broker_id, now_ms, leader_end)
    found.check()


def test_the_high_watermark_is_the_least_end_of_those_in_sync():
    found = followers()
    assert found.committed_end(10, 0, 1) == UNKNOWN_OFFSET  # nothing is known of them
    fetch(found, 2, 7)
    fetch(found, 3, 4)
    assert found.committed_end(10, 0, 1) == 4
    assert found.committed_end(2, 0, 1) == 2  # our own flush counts too
    found.settle((1, 2), 8)
    found.by_id[3].caught_up_ms = -1 << 62
    assert found.committed_end(10, 0, 1) == 7


def test_a_follower_about_to_join_is_waited_for():
    found = followers(isr=(1,))
    fetch(found, 2, 9, now_ms=0, leader_end=9)
    assert found.committed_end(10, 500, 1) == 9
    assert found.committed_end(10, LAG_MS + 1, 1) == 10  # it has had its time
    fenced = followers(isr=(1,), eligible=lambda *_: False)
    fetch(fenced, 2, 9, now_ms=0, leader_end=9)
    assert fenced.committed_end(10, 500, 1) == 10


@pytest.mark.parametrize(
    ("isr", "min_isr", "moves"),
    [
        ((1,), 1, True),
        ((1,), 2, False),
        ((1, 2), 2, True),
        ((1, 2), 9, False),
        ((1, 2, 3), 9, True),
    ],
)
def test_nothing_is_committed_with_too_few(isr, min_isr, moves):
    found = followers(isr=isr)
    for broker_id in (2, 3):
        fetch(found, broker_id, 10)
    assert (found.committed_end(10, 0, min_isr) == 10) is moves


def test_who_joins_must_have_all_from_before_the_epoch():
    found = followers(isr=(1,), leader_end=8)
    fetch(found, 2, 7)
    assert not found.joins(2, high_watermark=5)
    fetch(found, 2, 8)
    assert found.joins(2, high_watermark=5)
    assert not found.joins(2, high_watermark=9)
    proposal = found.propose((1, 2))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 7)
    assert (proposal.isr, proposal.broker_epochs) == ((1, 2), (-1, 22))
    assert found.maximal_isr == {1, 2}
    assert found.isr == (1,)
    assert not found.alone
    assert not found.joins(3, 0)  # one at a time
    found.withdraw()
    assert found.alone
    found.check()


def test_who_leaves_counts_until_the_controller_agrees():
    found = followers()
    for broker_id in (2, 3):
        fetch(found, broker_id, 10, now_ms=0)
    assert found.lagging(10, LAG_MS * 5) == []  # they have all that there is
    fetch(found, 2, 11, now_ms=LAG_MS * 5, leader_end=11)
    assert found.lagging(11, LAG_MS * 5) == [3]
    found.propose((1, 2))
    assert found.maximal_isr == {1, 2, 3}
    assert found.lagging(11, LAG_MS * 9) == []
    found.settle((1, 2), 8)
    assert found.maximal_isr == {1, 2}
    found.check()


def test_who_is_not_heard_leaves_where_enough_are_left():
    found = followers()
    heard = {2: 700, 3: 100}
    assert found.silent(heard, 500, 2) == [3]
    assert found.silent(heard, 500, 3) == [], "writers would be refused"
    assert found.silent(heard, 800, 2) == [], "nobody is heard: it may be our own fault"
    assert found.silent({2: 700}, 500, 2) == [3]
    fetch(found, 3, 10, now_ms=600)
    assert found.silent(heard, 500, 2) == [], "of this partition it was heard"
    found.propose((1, 2))
    assert found.silent(heard, 9_000, 1) == [], "one proposal at a time"


def test_under_steady_writes_one_is_in_sync_that_never_reaches_the_end():
    found = followers()
    for step in range(50):
        # Each fetch asks for what was the end when the last one came.
        fetch(found, 2, step * 10, now_ms=step * 200, leader_end=(step + 1) * 10)
        assert 2 not in found.lagging((step + 1) * 10, step * 200)
    for step in range(50, 60):
        fetch(found, 2, 500, now_ms=step * 200, leader_end=(step + 1) * 10)
    assert 2 in found.lagging(620, 60 * 200)


def test_a_new_epoch_of_the_same_leader_keeps_what_it_knows():
    found = followers()
    fetch(found, 2, 10)
    found.assign(PartitionState(1, 6, 8, (1, 2, 3), (1, 2)), 50, 12, epoch_start=12, afresh=False)
    assert found.by_id[2].log_end_offset == 10
    assert found.proposal is None
    found.assign(PartitionState(1, 7, 9, (1, 2, 4), (1, 2)), 60, 12, epoch_start=12, afresh=True)
    assert found.by_id[2].log_end_offset == UNKNOWN_OFFSET
    assert set(found.by_id) == {2, 4}
    found.check()


def test_the_low_watermark_is_that_of_the_living():
    alive = {2}
    found = followers(eligible=lambda broker_id, _: broker_id in alive)
    found.fetched(2, 10, 4, 22, 0, 10)
    found.fetched(3, 10, 1, 23, 0, 10)
    assert found.low_watermark(6) == 4
    alive.add(3)
    assert found.low_watermark(6) == 1


def test_partition_epochs_never_go_back():
    found = followers()
    with pytest.raises(AssertionError):
        found.settle((1,), 6)
