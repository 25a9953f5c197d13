"""The user's functions beside a record: interceptors before it is sent, `on_delivery` when it is known what became of it."""

from typing import Any

import pytest

from tidelog import Producer, SimpleConsumer, aio
from tidelog.client.interceptors import ProducerRecord
from tidelog.errors import InvalidRecord
from tidelog.names import RecordMetadata
from tidelog.testing.fixture import Tidelog


def test_on_delivery_of_a_record_and_of_all(bootstrap: str, topic: str) -> None:
    all_told: list[tuple[Exception | None, RecordMetadata]] = []
    told: list[tuple[Exception | None, RecordMetadata]] = []

    def note(error: Exception | None, where: RecordMetadata) -> None:
        told.append((error, where))

    with Producer(
        bootstrap_servers=bootstrap, on_delivery=lambda *both: all_told.append(both)
    ) as producer:
        producer.send(topic, b"a", partition=1, timestamp_ms=1234, on_delivery=note)
        producer.send_many(topic, [b"b", b"c"])
    assert told == [(None, RecordMetadata(topic, 1, 0, 1234))]
    assert len(all_told) == 3
    with Producer(
        bootstrap_servers=bootstrap
    ) as producer:  # and the short way of a record without settings
        for _ in range(3):
            producer.send(topic, b"d", on_delivery=note)
    assert [error for error, _ in told] == [None] * 4


def test_on_delivery_of_what_failed_is_a_look(tidelog: Tidelog) -> None:
    topic = tidelog.topic("refused")
    tidelog.faults.fail("Produce", "INVALID_RECORD", times=None, topic=topic)
    told: list[Any] = []
    with Producer(bootstrap_servers=tidelog.bootstrap) as producer:
        producer.send(topic, b"x", on_delivery=lambda *both: told.append(both))
    ((error, where),) = told
    assert isinstance(error, InvalidRecord)
    assert where == (topic, 0, -1, -1)


@pytest.mark.parametrize("name", ["timestamp_ms", "timestamp"])
async def test_both_names_of_the_time_and_both_faces(bootstrap: str, topic: str, name: str) -> None:
    time: dict[str, Any] = {name: 77}
    told: list[Any] = []
    async with aio.Producer(bootstrap_servers=bootstrap) as producer:
        for headers in (None, {"h": b"1"}, [("h", b"1")]):
            delivery = await producer.send(
                topic, b"x", headers=headers, on_delivery=lambda *both: told.append(both), **time
            )
            assert (await delivery).timestamp == 77
    assert len(told) == 3


def test_interceptors_see_and_change_records(bootstrap: str, topic: str) -> None:
    seen: list[ProducerRecord] = []

    def stamp(record: ProducerRecord) -> ProducerRecord:
        return record._replace(headers=[*record.headers, ("by", b"me")], value=record.value + "!")

    def note(record: ProducerRecord) -> ProducerRecord:
        seen.append(record)
        return record

    with Producer(
        bootstrap_servers=bootstrap, interceptors=[stamp, note], value_serializer=str.encode
    ) as producer:
        producer.send(topic, "hello", partition=0, headers={"a": b"1"})
        producer.send_many(topic, ["one", "two"], partition=0)
    assert [each.value for each in seen] == ["hello!", "one!", "two!"]  # once each
    with SimpleConsumer(bootstrap_servers=bootstrap) as consumer:
        first, second, _ = consumer.fetch(topic, 0, 0)
    assert first.value == b"hello!"
    assert first.headers == (("a", b"1"), ("by", b"me"))
    assert second.headers == (("by", b"me"),)


async def test_an_interceptor_may_choose_the_topic(bootstrap: str, topic: str) -> None:
    async with aio.Producer(
        bootstrap_servers=bootstrap, interceptors=[lambda each: each._replace(topic=topic)]
    ) as producer:
        assert (await (await producer.send("elsewhere", b"x"))).topic == topic


def test_what_an_interceptor_raises_or_forgets_is_told(bootstrap: str, topic: str) -> None:
    with (
        Producer(bootstrap_servers=bootstrap, interceptors=[lambda _: None]) as producer,  # type: ignore[arg-type,return-value]
        pytest.raises(TypeError, match="must return a ProducerRecord"),
    ):
        producer.send(topic, b"x")
