"""Followers that cannot reach their leader tell the controller, and lead without it where they are enough."""

import asyncio
from types import SimpleNamespace
from uuid import UUID

import pytest

from tidelog.cluster import isr, unreachable
from tidelog.cluster.image import Image, PartitionState
from tidelog.cluster.isr import IsrChange
from tidelog.cluster.metadata import BrokerRecord, ConfigRecord, PartitionRecord, TopicRecord
from tidelog.cluster.replication_config import ReplicationConfig
from tidelog.cluster.unreachable import Complaints
from tidelog.cluster.votes import Votes
from tidelog.errors import FencedLeaderEpoch, IneligibleReplica, InvalidRequest
from tidelog.testing.manual_clock import ManualClock

ID = UUID(int=1)


def image(replicas=(1, 2, 3), in_sync=(1, 2, 3), least=2, live=(1, 2, 3, 4, 5)) -> Image:
    records = [
        BrokerRecord(each, (), None, f"life-{each}", fenced=each not in live)
        for each in (1, 2, 3, 4, 5)
    ]
    records += [
        TopicRecord("t", ID),
        PartitionRecord(ID, 0, replicas, in_sync, 1),
        ConfigRecord("cluster", "", "min.insync.replicas", str(least)),
    ]
    return Image().apply(records, 1)[0]


def vote(now: Image, broker_id: int, *others: int, rest=None):
    """What comes of a vote after those of `others`."""
    state = now.topics["t"].partitions[0]
    rest = tuple(each for each in state.isr if each != 1) if rest is None else rest
    change = IsrChange(ID, 0, state.leader_epoch, state.partition_epoch, rest)
    records, (outcome,) = isr.alter(
        now, broker_id, 1, [change], lambda _: frozenset({broker_id, *others})
    )
    assert bool(records) == isinstance(outcome, PartitionState)
    return outcome


def test_more_than_half_of_those_in_sync_depose_the_leader():
    assert isinstance(vote(image(), 2), IneligibleReplica)
    after = vote(image(), 2, 3)
    assert (after.leader, after.leader_epoch, after.isr, after.eligible) == (2, 1, (2, 3), ())


def test_those_who_did_not_tell_leave_with_it():
    now = image(replicas=(1, 2, 3, 4, 5), in_sync=(1, 2, 3, 4, 5))
    assert isinstance(vote(now, 2, 3), IneligibleReplica)
    assert vote(now, 4, 3, 5).isr == (3, 4, 5)


@pytest.mark.parametrize(
    "now",
    [image(least=3), image(in_sync=(1, 2)), image(live=(1, 2))],
    ids=["too few to go on", "half is not enough", "one of them is gone"],
)
def test_where_they_are_not_enough_nothing_changes(now):
    assert isinstance(vote(now, 2, 3), IneligibleReplica)


def test_what_is_not_a_vote():
    now = image(replicas=(1, 2, 3, 4), in_sync=(1, 2, 3))
    assert isinstance(vote(now, 4, 2, 3), InvalidRequest), "it is not in sync"
    assert isinstance(vote(now, 2, 3, rest=(2,)), InvalidRequest)
    change = IsrChange(ID, 0, -1, 0, (2, 3))
    _, (outcome,) = isr.alter(now, 2, 1, [change], lambda _: frozenset({2, 3}))
    assert isinstance(outcome, FencedLeaderEpoch)


def test_votes_count_for_seconds_and_not_soon_again():
    clock = ManualClock()
    votes = Votes(clock.monotonic)
    change = IsrChange(ID, 0, 4, 7, (2, 3))
    assert votes.cast(change, 2) == {2}
    clock.advance(2_000)
    assert votes.cast(change, 3) == {2, 3}
    clock.advance(2_000)
    assert votes.cast(change, 3) == {3}, "that of 2 is old"
    assert votes.cast(IsrChange(ID, 0, 5, 8, (1, 3)), 3) == {3}, "another leader is another matter"
    votes.carried_out(change)
    clock.advance(29_000)
    assert votes.cast(change, 2) == frozenset()
    clock.advance(2_000)
    assert votes.cast(change, 2) == {2}


async def test_a_follower_tells_when_it_has_heard_nothing_twice_in_a_row(monkeypatch):
    monkeypatch.setattr(unreachable, "_LOOK_S", 0.0)
    told: asyncio.Queue[list[IsrChange]] = asyncio.Queue()
    silent = [SimpleNamespace(topic_id=ID, index=0)]
    looks = []

    def unanswered(seconds: float):
        looks.append(seconds)
        return [] if len(looks) == 2 else silent

    async def alter(changes):
        looks_then = len(looks)
        await told.put([*changes, looks_then])

    complaints = Complaints(2, image, SimpleNamespace(unanswered=unanswered), alter, lambda: 5_000)
    task = asyncio.create_task(complaints.run())
    change, looked = await asyncio.wait_for(told.get(), 60)
    assert (change.isr, change.leader_epoch, looked) == ((2, 3), 0, 4)
    assert looks[0] == 5.0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("silence_ms", "wait_ms", "expected"),
    [(5000, 500, 5000), (5000, 4000, 8000), (5000, 10_000, 20_000), (0, 10_000, 0)],
)
def test_a_fetch_that_waits_at_an_idle_leader_is_not_silence(silence_ms, wait_ms, expected):
    config = ReplicationConfig(leader_silence_max_ms=silence_ms, fetch_wait_max_ms=wait_ms)
    assert config.silence_max_ms == expected
