"""What clients make of metadata: partitions without a leader, partitions that were added, leaders that moved."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tidelog import Admin, Consumer, Producer, TopicPartition, aio
from tidelog.cli.main import main
from tidelog.client.cluster import Cluster
from tidelog.client.partitioning import Candidates, partition_of
from tidelog.errors import (
    DeliveryFailed,
    LeaderNotAvailable,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from tidelog.protocol.messages.metadata import MetadataResponse
from tidelog.testing.fixture import Tidelog

SOON_S = 20.0
NOBODY = -1


@pytest.fixture
def change_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[MetadataResponse], None]], None]:
    """Have the clients of this process be told something else than the broker says."""
    ask_any = Cluster.ask_any

    def begin(change: Callable[[MetadataResponse], None]) -> None:
        async def ask(self: Cluster, request: Any) -> Any:
            answer = await ask_any(self, request)
            if isinstance(answer, MetadataResponse):
                change(answer)
            return answer

        monkeypatch.setattr(Cluster, "ask_any", ask)

    return begin


@pytest.fixture
def leaderless(
    topic: str, change_metadata: Callable[[Callable[[MetadataResponse], None]], None]
) -> TopicPartition:
    """Partition 1 of a topic with three, which nobody leads."""

    def behead(answer: MetadataResponse) -> None:
        for each in answer.topics:
            for partition in each.partitions:
                if (each.name, partition.partition_index) == (topic, 1):
                    partition.leader_id = NOBODY
                    partition.error_code = LeaderNotAvailable.code

    change_metadata(behead)
    return TopicPartition(topic, 1)


def test_a_producer_goes_on_with_the_partitions_that_are_led(
    bootstrap: str, leaderless: TopicPartition
) -> None:
    topic = leaderless.topic
    with Producer(
        bootstrap_servers=bootstrap, batch_size=0, max_block_ms=5_000, delivery_timeout_ms=1_500
    ) as producer:
        assert producer.partitions_for(topic) == [0, 1, 2]
        sent = [producer.send(topic, b"%d" % number) for number in range(40)]
        assert {each.result(SOON_S).partition for each in sent} == {0, 2}
        # A key has its partition whether that is led or not: there, or another client would look elsewhere.
        key = next(b"%d" % n for n in range(100) if partition_of(b"%d" % n, 3) == 1)
        with pytest.raises(RequestTimedOut, match=rf"{leaderless}.*no leader"):
            producer.send(topic, b"x", key=key).result(SOON_S)


async def test_the_async_producer_too(bootstrap: str, leaderless: TopicPartition) -> None:
    async with aio.Producer(
        bootstrap_servers=bootstrap, batch_size=0, max_block_ms=5_000
    ) as producer:
        sent = [await producer.send(leaderless.topic, b"x") for _ in range(20)]
        assert {(await each).partition for each in sent} == {0, 2}


def test_a_sticky_batch_leaves_a_partition_that_loses_its_leader(
    bootstrap: str,
    topic: str,
    change_metadata: Callable[[Callable[[MetadataResponse], None]], None],
) -> None:
    with Producer(
        bootstrap_servers=bootstrap, linger_ms=60_000, metadata_max_age_ms=20
    ) as producer:
        producer.send(topic, b"first")
        drafts = producer.core.accumulator.drafts[topic]
        (gone,) = (index for index, draft in enumerate(drafts.open) if draft is not None)

        def behead(answer: MetadataResponse) -> None:
            for each in answer.topics:
                for partition in each.partitions:
                    if (each.name, partition.partition_index) == (topic, gone):
                        partition.leader_id = NOBODY

        change_metadata(behead)

        async def hears_of_it(core: aio.Producer) -> None:
            async with asyncio.timeout(SOON_S):
                while drafts.sticky is not None:
                    await core.cluster.refresh([topic])

        producer.run(hears_of_it)
        second = producer.send(topic, b"second")
        producer.core.accumulator.seal_all()
        assert second.result(SOON_S).partition != gone
        with pytest.raises(DeliveryFailed, match=f"1 record was not delivered to {topic}-{gone}"):
            producer.close(0.1)


def test_a_consumer_goes_on_with_the_partitions_that_are_led(
    bootstrap: str,
    topic: str,
    unique: Callable[[str], str],
    request: pytest.FixtureRequest,
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for partition in range(3):
            producer.send(topic, b"%d" % partition, partition=partition)
    request.getfixturevalue("leaderless")
    settings = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
    for more in ({}, {"group_id": unique("group")}):
        with Consumer(topics=topic, **settings, **more) as consumer:
            messages = iter(consumer)
            assert {next(messages).value for _ in range(2)} == {b"0", b"2"}
    with Consumer(**settings) as consumer:
        consumer.assign([(topic, number) for number in range(3)])
        messages = iter(consumer)
        assert {next(messages).value for _ in range(2)} == {b"0", b"2"}


def test_administration_names_the_one_without_a_leader(
    bootstrap: str, leaderless: TopicPartition
) -> None:
    topic = leaderless.topic
    with Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=300) as admin:
        described = admin.describe_topics([topic])[topic]
        assert [each.leader for each in described.partitions][1] == NOBODY
        assert set(admin.watermarks(topic, led=True)) == {
            TopicPartition(topic, 0),
            TopicPartition(topic, 2),
        }
        with pytest.raises(LeaderNotAvailable, match=str(leaderless)):
            admin.watermarks(topic)
        with pytest.raises(LeaderNotAvailable, match=str(leaderless)):
            admin.delete_records({leaderless: 0})


def test_commands_go_on_and_name_the_one_without_a_leader(
    bootstrap: str, leaderless: TopicPartition, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = leaderless.topic
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"zero", partition=0)
    assert main(["peek", topic, "-b", bootstrap]) == 0
    shown = capsys.readouterr()
    assert "zero" in shown.out
    assert f"{leaderless} has no leader" in shown.err
    assert main(["consume", topic, "-b", bootstrap, "--from-beginning", "--exit"]) == 0
    shown = capsys.readouterr()
    assert "zero" in shown.out
    assert f"{leaderless} has no leader" in shown.err
    assert main(["topic", "describe", topic, "--offsets", "-b", bootstrap]) == 0
    assert topic in capsys.readouterr().out


# ------------------------------------------------------------------ partitions that were added


def grown(admin: Admin, topic: str, total: int) -> None:
    admin.add_partitions(topic, total)


async def learnt(core: aio.Producer, topic: str, total: int) -> None:
    async with asyncio.timeout(SOON_S):
        heard = asyncio.Event()
        follow = core.accumulator.follow

        def hear(name: str, candidates: Candidates) -> None:
            follow(name, candidates)
            if (name, candidates.total) == (topic, total):
                heard.set()

        core.accumulator.follow = hear  # type: ignore[method-assign]
        await heard.wait()


def test_partitions_that_were_added_are_used(bootstrap: str, topic: str, admin: Admin) -> None:
    keys = [b"key %d" % number for number in range(50)]
    with Producer(
        bootstrap_servers=bootstrap, metadata_max_age_ms=50, linger_ms=60_000
    ) as producer:
        before = [producer.send(topic, b"x", key=key) for key in keys]
        producer.flush()
        assert [each.result(SOON_S).partition for each in before] == [
            partition_of(key, 3) for key in keys
        ]
        for key in keys:
            producer.send(topic, b"open", key=key)  # the batches of the old partitions stay open
        grown(admin, topic, 7)
        producer.run(lambda core: learnt(core, topic, 7))
        after = [producer.send(topic, b"y", key=key) for key in keys]
        producer.flush()
        assert [each.result(SOON_S).partition for each in after] == [
            partition_of(key, 7) for key in keys
        ]


def test_a_partition_that_was_added_may_be_named_at_once(
    bootstrap: str, topic: str, admin: Admin
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"x").result(SOON_S)
        grown(admin, topic, 4)
        assert producer.send(topic, b"y", partition=3).result(SOON_S).partition == 3
        with pytest.raises(UnknownTopicOrPartition, match="0 to 3, not 4"):
            producer.send(topic, b"z", partition=4)


async def test_the_async_producer_uses_added_partitions(
    bootstrap: str, topic: str, admin: Admin
) -> None:
    async with aio.Producer(bootstrap_servers=bootstrap, metadata_max_age_ms=50) as producer:
        await (await producer.send(topic, b"x"))
        await asyncio.to_thread(grown, admin, topic, 5)
        assert (await (await producer.send(topic, b"y", partition=4))).partition == 4
        await learnt(producer, topic, 5)
        assert await producer.partitions_for(topic) == [0, 1, 2, 3, 4]


def test_asking_again_makes_no_topic(bootstrap: str, topic: str, admin: Admin) -> None:
    """A producer that has been idle must not bring back what was deleted."""
    with Producer(bootstrap_servers=bootstrap, metadata_max_age_ms=20) as producer:
        producer.send(topic, b"x").result(SOON_S)
        admin.delete_topics([topic])

        async def asked_again(core: aio.Producer) -> None:
            """By itself, twice."""
            asked = asyncio.Semaphore(0)
            refresh = core.cluster._refresh

            async def listen(topics: Any, create: bool) -> MetadataResponse:
                answer = await refresh(topics, create)
                asked.release()
                return answer

            core.cluster._refresh = listen  # type: ignore[method-assign]
            async with asyncio.timeout(SOON_S):
                for _ in range(3):
                    await asked.acquire()

        producer.run(asked_again)
        assert topic not in admin.list_topics()


def test_a_partitioner_that_names_none_is_told(bootstrap: str, topic: str) -> None:
    with (
        Producer(bootstrap_servers=bootstrap, partitioner=lambda *_: 3) as producer,
        pytest.raises(UnknownTopicOrPartition, match=r"partitioner.*3"),
    ):
        producer.send(topic, b"x")


def test_administration_follows_a_leader_that_moved(tidelog: Tidelog) -> None:
    topic = tidelog.topic("moved")
    tidelog.produce(topic, b"a", b"b")
    with Admin(bootstrap_servers=tidelog.bootstrap) as admin:
        tidelog.faults.fail("DeleteRecords", "NOT_LEADER_OR_FOLLOWER")
        assert admin.delete_records({TopicPartition(topic, 0): 1}) == {TopicPartition(topic, 0): 1}
