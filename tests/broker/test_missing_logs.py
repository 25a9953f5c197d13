"""A known broker that comes back without what it had neither leads with nothing, nor erases what others have."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from test_cluster import Cluster
from test_failed_directories import RECORDS, Disks

from tidelog.broker.broker import Broker
from tidelog.cluster.controller import Controller
from tidelog.errors import StartError
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

UNCLEAN = 1


class Volumes(Disks):
    """Brokers with two volumes each, which may be missing when they start."""

    accepting: tuple[int, ...] = ()

    def make(self, number: int, **more: str) -> Broker:
        broker = super().make(number, **more)
        broker._accept_empty = number in self.accepting
        return broker

    def unmount(self, number: int, *which: str) -> None:
        for each in which or ("one", "two"):
            shutil.rmtree(self.disk(number, each))

    async def one_after_the_other(self) -> None:
        """Broker 2 stops first: only 1 is in sync when it stops, too."""
        await self.create_on([1, 2], "orders", 4)
        await self.fill("orders", 4)
        await self.stop(2)
        await self.stop(1)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Volumes]:
    cluster = Volumes(tmp_path)
    await cluster.start(0, 1, 2)
    yield cluster
    await Cluster.stop(cluster, *cluster.brokers)


@pytest.mark.parametrize("missing", [("one", "two"), ("two",)], ids=["all", "one of two"])
async def test_it_does_not_start_and_nothing_is_erased(cluster: Volumes, missing):
    await cluster.one_after_the_other()
    assert cluster.on_disk(1, "orders", "two")
    kept = cluster.disk(1, "one").with_name("kept")
    for each in missing:
        shutil.copytree(cluster.disk(1, each), kept / each)
    cluster.unmount(1, *missing)
    for _ in range(
        2
    ):  # to be refused leaves nothing behind by which it would be let in the next time
        with pytest.raises(StartError, match=r"orders-.* is the volume mounted.*--accept-empty"):
            await cluster.make(1).start()
    for each in missing:
        shutil.rmtree(cluster.disk(1, each), ignore_errors=True)
        (kept / each).rename(cluster.disk(1, each))
    await cluster.start(1, 2)
    assert await cluster.ends(1, "orders", 4) == [RECORDS] * 4


async def test_what_the_others_have_is_copied_when_one_of_them_leads(cluster: Volumes):
    await cluster.one_after_the_other()
    cluster.unmount(1)
    cluster.accepting = (1,)
    for _ in range(2):  # a second start finds directories that are known, and still no logs
        await cluster.start(1)
        states = await cluster.partitions(0, "orders")
        assert {each.leader_id for each in states} == {-1}, "nobody leads with an empty log"
        await cluster.stop(1)
        cluster.accepting = ()
    await cluster.start(1, 2)
    wanted = [TopicPartitions(topic="orders", partitions=[0, 1, 2, 3])]
    told = await cluster.ask(0, ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=wanted))
    assert {each.error_code for each in told.replica_election_results[0].partition_result} == {0}

    async def copied() -> bool:
        states = await cluster.partitions(0, "orders")
        return all((each.leader_id, sorted(each.isr_nodes)) == (2, [1, 2]) for each in states)

    await cluster.until(copied)
    assert await cluster.ends(2, "orders", 4) == [RECORDS] * 4
    assert [cluster.log_end(1, "orders", each) for each in range(4)] == [RECORDS] * 4


async def test_where_others_are_in_sync_they_lead_and_it_is_filled_again(cluster: Volumes):
    await cluster.create_on([1, 2], "orders", 4)
    await cluster.fill("orders", 4)
    await cluster.stop(1)
    cluster.unmount(1)
    cluster.accepting = (1,)
    await cluster.start(1)

    async def copied() -> bool:
        states = await cluster.partitions(0, "orders")
        return all((each.leader_id, sorted(each.isr_nodes)) == (2, [1, 2]) for each in states)

    await cluster.until(copied)
    assert [cluster.log_end(1, "orders", each) for each in range(4)] == [RECORDS] * 4


async def test_a_log_that_was_removed_by_hand_does_not_lead(cluster: Volumes):
    await cluster.one_after_the_other()
    for each in ("one", "two"):
        for log in cluster.disk(1, each).glob("orders-*"):
            shutil.rmtree(log)
    await cluster.start(1, 2)
    assert {each.leader_id for each in await cluster.partitions(0, "orders")} == {-1}
    assert [cluster.log_end(2, "orders", each) for each in range(4)] == [RECORDS] * 4


async def test_of_two_in_sync_the_one_with_the_logs_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Both were killed at once, so both are in sync still; the first that is back has lost its logs."""
    cluster = Volumes(tmp_path)
    await cluster.start(0)
    await cluster.start(1, 2)
    await cluster.create_on([1, 2], "orders", 4)
    await cluster.fill("orders", 4)

    async def not_now(_: Controller) -> None: ...

    with monkeypatch.context() as patch:
        patch.setattr(Controller, "reconcile", not_now)
        for number in (1, 2):
            cluster._connections.pop(number).close()
            await cluster.brokers.pop(number).abort()
    for each in ("one", "two"):
        for log in cluster.disk(1, each).glob("orders-*"):
            shutil.rmtree(log)
    await cluster.start(1)
    states = await cluster.partitions(0, "orders")
    assert {(each.leader_id, *each.isr_nodes) for each in states} == {(-1, 2)}
    await cluster.start(2)
    assert await cluster.ends(2, "orders", 4) == [RECORDS] * 4
    await Cluster.stop(cluster, *cluster.brokers)


async def test_a_new_broker_and_a_new_directory_are_welcome(tmp_path: Path):
    cluster = Cluster(tmp_path)
    await cluster.start(0)
    await cluster.create(0, "orders", 3, factor=1)
    await cluster.stop(0)
    more = f"{tmp_path / '0'},{tmp_path / 'more'}"
    broker = cluster.make(0, **{"log.dirs": more})
    await broker.start()
    await broker.stop()
