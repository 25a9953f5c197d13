"""Replicas on log directories that failed: what the controller makes of them."""

import asyncio
from uuid import UUID

import pytest

from tidelog.cluster import elections, isr, offline, registration, versions
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
from tidelog.errors import EligibleLeadersNotAvailable, StaleBrokerEpoch, UnsupportedVersion

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


def test_it_is_eligible_where_too_few_are_left():
    now = state(told(image_with(isr=(1, 2)), 1, lost={PLACE}))
    assert (now.leader, now.isr, now.eligible) == (2, (2,), (1,))
    now = state(told(image_with(isr=(1,), eligible=(2, 3)), 3, lost={PLACE}))
    assert (now.leader, now.isr, now.eligible) == (1, (1,), (2, 3))
    back = state(told(told(image_with(isr=(1, 2)), 1, lost={PLACE}), 1, back={PLACE}))
    assert (back.leader, back.isr, back.eligible) == (2, (2,), ())


def come_back(image: Image, broker_id: int, *, clean: bool) -> Image:
    """Another life of a broker registers, and takes part at once."""
    record = BrokerRecord(broker_id, ENDPOINTS, incarnation=f"{broker_id} again")
    records = registration.register(image, record, set(), clean=clean, unclean=lambda _: False)
    after, _ = image.apply(with_eligible(image, records), image.number + 1)
    return after


def test_the_last_in_sync_that_lost_records_waits_for_one_whose_disk_failed():
    image = come_back(told(image_with(isr=(1, 2)), 1, lost={PLACE}), 2, clean=False)
    assert (state(image).leader, state(image).isr) == (-1, (1,))
    back = state(told(image, 1, back={PLACE}))
    assert (back.leader, back.isr) == (1, (1,))


def test_a_new_life_without_the_disk_is_as_good_as_the_old_one():
    image = come_back(told(image_with(isr=(1, 2)), 1, lost={PLACE}), 1, clean=False)
    assert (state(image).isr, state(image).eligible) == ((2,), (1,))


def test_the_last_in_sync_gives_way_and_stays_eligible_when_its_disk_fails():
    image = told(image_with(isr=(1,), eligible=(2,)), 2, lost={PLACE})
    image = come_back(told(image, 1, lost={PLACE}), 1, clean=False)
    assert (state(image).leader, state(image).isr, state(image).eligible) == (-1, (2,), (1,))


def waiting() -> Image:
    """Broker 2 is the last in sync, and gone; broker 1, whose disk failed, would be the next."""
    image = told(image_with(isr=(1, 2)), 1, lost={PLACE})
    changes = registration.fence_gone(image, {"1", "3"}, lambda _: False)
    gone, _ = image.apply(with_eligible(image, changes), image.number + 1)
    assert (state(gone).leader, state(gone).isr, state(gone).eligible) == (-1, (2,), (1,))
    return gone


@pytest.mark.parametrize("clean", [True, False])
async def test_one_that_is_back_waits_for_the_last_in_sync(clean: bool):
    image = waiting()
    done = asyncio.Event()

    async def assign(lost, back):
        nonlocal image
        image = told(image, 1, lost=lost, back=back)
        done.set()

    here = offline.Offline(1, lambda: image, assign, lambda _: False)
    assert await here.tell()
    assert state(image).offline == (1,), "it keeps its mark"
    task = asyncio.create_task(here.run())
    image = come_back(image, 2, clean=clean)
    here.changed(*PLACE)
    await asyncio.wait_for(done.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    leader = 2 if clean else 1
    now = state(image)
    assert (now.leader, now.isr, now.offline) == (leader, (leader,), ())


@pytest.mark.parametrize("why", ["empty", "unclean"])
async def test_nobody_waits_where_that_is_of_no_use(why: str):
    image = waiting()

    async def assign(lost, back):
        nonlocal image
        image = told(image, 1, lost=lost, back=back)

    here = offline.Offline(1, lambda: image, assign, lambda _: why == "unclean")
    if why == "empty":
        here.begin_empty(*PLACE)
    assert await here.tell()
    assert (state(image).leader, state(image).isr, state(image).eligible) == (-1, (2,), ())


def test_one_that_waits_can_be_elected_by_hand():
    image = waiting()
    changes, [outcome] = elections.elect(image, {1}, elections.UNCLEAN, [("t", 0)])
    assert outcome is None
    now = state(image.apply(with_eligible(image, changes), image.number + 1)[0])
    assert (now.leader, now.isr, now.eligible, now.offline) == (1, (1,), (2,), ())
    _, [refused] = elections.elect(image, set(), elections.UNCLEAN, [("t", 0)])
    assert isinstance(refused, EligibleLeadersNotAvailable)


def test_who_resigns_for_good_is_marked():
    image = image_with(isr=(1, 2))
    change = isr.IsrChange(TOPIC, 0, 0, 0, (2,), for_good=True)
    epoch = image.brokers[1].epoch
    old, _ = isr.alter(image, 1, epoch, [change])
    assert (old[0].offline, old[0].eligible) == (None, ()), "not all brokers can read the mark"
    noted = [each for broker in (1, 2, 3) for each in versions.noted(image, broker, str(broker), 2)]
    image, _ = image.apply(noted, 6)
    records, _ = isr.alter(image, 1, epoch, [change])
    now = state(image.apply(with_eligible(image, records), 7)[0])
    assert (now.leader, now.isr, now.eligible, now.offline) == (2, (2,), (1,), (1,))


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

    here = offline.Offline(1, lambda: image, assign, lambda _: False)
    here.add(*PLACE)
    assert not await here.tell(), "a start does not wait for that"
    task = asyncio.create_task(here.run())
    await asyncio.wait_for(done.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert state(image).offline == (1,)
