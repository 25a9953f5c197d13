"""A leader that the metastore has not heard for long answers as one while nobody else can be."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from tidelog.cluster.image import Image, PartitionState, Topic
from tidelog.cluster.lease import Lease
from tidelog.cluster.replica import Followers
from tidelog.errors import NotLeaderOrFollower
from tidelog.testing.manual_clock import ManualClock

ID = UUID(int=1)
PATIENCE_MS = 1_000


class Rig:
    """Broker 1 leads a partition of three replicas."""

    def __init__(self, isr=(1, 2, 3), eligible=(), *, unclean=False) -> None:
        self.clock = ManualClock()
        state = PartitionState(1, 4, 5, (1, 2, 3), isr, eligible=eligible)
        image = Image(topics={"t": Topic("t", ID, (state,))}, topic_names={ID: "t"})
        self.lease = Lease(1, lambda: image, self.clock, lambda: PATIENCE_MS)
        self.followers = Followers(1, lambda: 30_000, lambda *_: True)
        self.followers.assign(state, self.now_ms, 0, 0, afresh=True)
        self.partition = SimpleNamespace(
            topic_id=ID,
            index=0,
            topic_partition="t-0",
            not_leading=None,
            followers=self.followers,
            replica_watchers={},
            log=SimpleNamespace(config=SimpleNamespace(unclean_leader_election=unclean)),
        )

    @property
    def now_ms(self) -> int:
        return int(self.clock.monotonic() * 1000)

    def fetched(self, *followers: int) -> None:
        for each in followers:
            self.followers.fetched(each, 0, 0, 1, self.now_ms, 0)


def test_a_lease_ends_with_its_time():
    rig = Rig()
    assert rig.lease.is_over, "before it is registered"
    rig.lease.until = rig.clock.monotonic() + 9
    assert not rig.lease.is_over
    rig.clock.advance(9_000)
    assert rig.lease.is_over


def test_while_all_in_sync_fetch_here_none_of_them_leads():
    rig = Rig()
    rig.fetched(2, 3)
    assert not rig.lease.is_in_doubt(rig.partition)
    rig.lease.check(rig.partition)
    rig.clock.advance(PATIENCE_MS)
    rig.fetched(2)
    assert rig.lease.is_in_doubt(rig.partition), "3 may lead by now"
    with pytest.raises(NotLeaderOrFollower, match="another may lead t-0"):
        rig.lease.check(rig.partition)


def test_who_is_not_in_sync_is_not_asked():
    rig = Rig(isr=(1, 2))
    rig.fetched(2)
    assert not rig.lease.is_in_doubt(rig.partition)


@pytest.mark.parametrize(
    ("facts", "doubt"),
    [({}, False), ({"eligible": (2,)}, True), ({"unclean": True}, True)],
    ids=["nobody else can", "an eligible one can", "anybody can"],
)
def test_the_only_one_in_sync(facts, doubt):
    assert Rig(isr=(1,), **facts).lease.is_in_doubt(Rig(isr=(1,), **facts).partition) is doubt


def test_without_other_replicas_there_is_no_doubt():
    rig = Rig()
    rig.partition.followers = None
    assert not rig.lease.is_in_doubt(rig.partition)
