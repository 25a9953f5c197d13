"""Replicas on log directories that failed: what the controller makes of them."""

import asyncio
from uuid import UUID

import pytest

from tidelog.cluster import elections, offline
from tidelog.cluster.eligible import with_eligible
from tidelog.cluster.image import Image
from tidelog.cluster.metadata import (
    BrokerRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
    decode,
    encode,
)
from tidelog.errors import StaleBrokerEpoch, UnsupportedVersion

TOPIC = UUID(int=7)
PLACE = (TOPIC, 0)
ENDPOINTS = (("PLAINTEXT", "h", 1),)


def image_with(**partition) -> Image:
    given = {"replicas": (1, 2, 3), "isr": (1, 2, 3), "leader": 1, **partition}
    brokers = [BrokerRecord(each, ENDPOINTS, incarnation=str(each)) for each in (1, 2, 3)]
    topic = [TopicRecord("t", TOPIC), PartitionRecord(TOPIC, 0, **given)]
    config = ConfigRecord("topic", "t", "min.insync.replicas", "2")
    image, _ = Image().apply([*brokers, *topic, config], 5)
    return image


def told(
    image: Image, broker_id: int, *, lost=frozenset(), back=frozenset(), unclean=False
) -> Image:
    epoch = image.brokers[broker_id].epoch
    changes = offline.assign(image, broker_id, epoch, set(lost), set(back))
    records = offline.settled(image, changes, lambda _: unclean) if changes else []
    records = with_eligible(image, decode(encode(records)))
    after, _ = image.apply(records, image.number + 1)
    again, _ = Image().apply(decode(encode(after.records())), after.number)
    assert again == after  # a snapshot says the same
    return after


def state(image: Image):
    return image.topics["t"].partitions[0]


def test_a_leader_that_lost_its_disk_is_followed_by_another():
    now = state(told(image_with(), 1, lost={PLACE}))
    assert (now.leader, now.isr, now.eligible, now.offline) == (2, (2, 3), (), (1,))


def test_a_follower_that_lost_its_disk_leaves():
    now = state(told(image_with(), 3, lost={PLACE}))
    assert (now.leader, now.leader_epoch, now.isr, now.offline) == (1, 0, (1, 2), (3,))


def test_it_is_not_eligible_although_too_few_are_left():
    now = state(told(image_with(isr=(1, 2), eligible=(3,)), 1, lost={PLACE}))
    assert (now.leader, now.isr, now.eligible) == (2, (2,), (3,))
    now = state(told(image_with(isr=(1, 2), eligible=(3,)), 3, lost={PLACE}))
    assert now.eligible == ()


def test_the_last_in_sync_replica_stays_and_nobody_leads():
    image = told(image_with(isr=(1,)), 1, lost={PLACE})
    assert (state(image).leader, state(image).isr) == (-1, (1,))
    for live in ({1, 2, 3}, {1}):  # whatever comes and goes
        assert elections.settle(image, live, lambda _: False) == []
    assert elections.prefer(image, {1, 2, 3}) == []
    back = told(image, 1, back={PLACE})
    assert (state(back).leader, state(back).isr, state(back).offline) == (1, (1,), ())


def test_who_is_eligible_leads_in_its_place():
    now = state(told(image_with(isr=(1,), eligible=(2,)), 1, lost={PLACE}))
    assert (now.leader, now.isr) == (2, (2,))


def test_an_unclean_election_takes_one_that_has_its_disk():
    now = state(told(image_with(isr=(1,)), 1, lost={PLACE}, unclean=True))
    assert (now.leader, now.isr) == (2, (2,))


def test_what_is_known_already_or_gone_changes_nothing():
    image = told(image_with(), 1, lost={PLACE})
    assert told(image, 1, lost={PLACE, (TOPIC, 9), (UUID(int=8), 0)}).number == image.number + 1
    assert state(told(image, 1, lost={PLACE})) == state(image)
    assert state(told(image, 2, back={PLACE})) == state(image)


def test_a_mark_goes_with_its_replica():
    image = told(image_with(), 1, lost={PLACE})
    moved, _ = image.apply([PartitionChangeRecord(TOPIC, 0, replicas=(2, 3))], 9)
    assert state(moved).offline == ()


def test_an_earlier_life_is_not_heard():
    with pytest.raises(StaleBrokerEpoch):
        offline.assign(image_with(), 1, 99, {PLACE}, set())


async def test_it_is_told_when_the_last_broker_has_been_updated(monkeypatch):
    monkeypatch.setattr(offline, "_UPDATED_S", 0.0)
    image = image_with()
    tries: list[set] = []
    done = asyncio.Event()

    async def assign(lost, back):
        nonlocal image
        tries.append(lost)
        if len(tries) < 3:
            raise UnsupportedVersion("update broker 2")
        image = told(image, 1, lost=lost)
        done.set()

    here = offline.Offline(1, lambda: image, assign)
    here.add(*PLACE)
    assert not await here.tell(), "a start does not wait for that"
    task = asyncio.create_task(here.run())
    await asyncio.wait_for(done.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert state(image).offline == (1,)
