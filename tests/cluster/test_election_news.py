"""Elections among the records of a decision: which they are, why, and whether records may be lost."""

import logging
from uuid import UUID

import pytest

from tidelog.cluster.election_news import elected, tell
from tidelog.cluster.image import NO_LEADER, Image
from tidelog.cluster.metadata import (
    BrokerChangeRecord,
    BrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    TopicRecord,
)

TOPIC = UUID(int=1)


def image(*records: Record, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> Image:
    made: list[Record] = [
        BrokerRecord(number, (("PLAINTEXT", "", 9092),), None, fenced=False) for number in (1, 2, 3)
    ]
    made += [TopicRecord("orders", TOPIC), PartitionRecord(TOPIC, 0, (1, 2, 3), isr, leader)]
    return Image().apply([*made, *records], 1)[0]


def news(before: Image, *records: Record):
    after = before.apply(records, before.number + 1)[0]
    return list(elected(before, after, records))


def change(**what) -> PartitionChangeRecord:
    return PartitionChangeRecord(TOPIC, 0, **what)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ((BrokerChangeRecord(1, fenced=True), change(leader=2)), "broker 1 is gone"),
        ((BrokerChangeRecord(1, stopping=True), change(leader=2)), "broker 1 is stopping"),
        ((change(leader=2, replicas=(2, 3)),), "broker 1 holds it no longer"),
        ((change(leader=3, isr=(3,), replicas=(3,)),), "broker 1 holds it no longer"),
        ((change(leader=2, isr=(2,)),), "broker 1 is not in sync any more"),
    ],
)
def test_the_reason_is_in_the_images(records, reason):
    (found,) = news(image(), *records)
    assert (found.topic, found.partition, found.reason, found.unclean) == (
        "orders",
        0,
        reason,
        False,
    )


def test_the_preferred_leader_takes_over():
    (found,) = news(image(leader=2), change(leader=1))
    assert found.reason == "it is preferred to broker 2"


def test_an_unclean_election_is_one_of_who_was_not_in_sync(caplog):
    (found,) = news(image(isr=(1,)), BrokerChangeRecord(1, fenced=True), change(leader=3, isr=(3,)))
    assert found.unclean
    tell([found])
    assert "orders-0 is led by broker 3, which was not in sync" in caplog.text


def test_a_partition_may_lose_its_leader(caplog):
    (found,) = news(image(), BrokerChangeRecord(1, fenced=True), change(leader=NO_LEADER))
    assert not found.unclean
    tell([found])
    assert "orders-0 has no leader any more: broker 1 is gone" in caplog.text


def test_what_is_no_election_is_not_told():
    assert news(image(), change(isr=(1,))) == []
    assert news(image(), change(leader=1)) == [], "a new epoch of the same leader"


def test_thousands_are_told_in_short(caplog):
    caplog.set_level(logging.INFO)
    (one,) = news(image(), change(leader=2))
    tell([one] * 5000)
    lines = [each.getMessage() for each in caplog.records]
    assert len(lines) == 101
    assert lines[-1] == "4900 more partitions have another leader"
