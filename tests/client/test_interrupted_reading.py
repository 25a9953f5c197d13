"""Reading that is broken off in the middle, by somebody's code or by Ctrl-C: nothing is skipped, nothing counts as done."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tidelog import Admin, BadMessage, Consumer, Message, Producer, TopicPartition, aio

from .test_contract import committed

Names = Callable[[str], str]


@pytest.fixture
def make(bootstrap: str, unique: Names) -> Callable[..., Consumer]:
    def made(*topics: str, **options: Any) -> Consumer:
        return Consumer(
            *topics, bootstrap_servers=bootstrap, auto_offset_reset="earliest", **options
        )

    return made


@pytest.fixture
def fill(bootstrap: str, admin: Admin, unique: Names) -> Callable[..., str]:
    """Makes a topic with these values in each of its partitions."""

    def filled(*partitions: list[bytes]) -> str:
        name = unique("interrupted")
        admin.create_topics({name: len(partitions)})
        with Producer(bootstrap_servers=bootstrap) as producer:
            for partition, values in enumerate(partitions):
                producer.send_many(name, values, partition=partition)
        return name

    return filled


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def until(
    consumer: Consumer, count: int, failure: type[BaseException]
) -> tuple[list[Message], int]:
    """So many messages, and how often polling failed meanwhile."""
    found: list[Message] = []
    failed = 0
    while len(found) < count:
        try:
            some = consumer.poll(15)
            assert some, f"{len(found)} of {count} messages, and no more"
            found += some
        except failure:
            failed += 1
    return found, failed


class Once:
    """Fails at one call, and then no more."""

    def __init__(self, failure: BaseException, at: int) -> None:
        self._failure = failure
        self._left = at

    def __call__(self, given: Any) -> Any:
        self._left -= 1
        if not self._left:
            raise self._failure
        return given


def test_an_interceptor_that_returns_nothing_costs_no_messages(
    make: Callable[..., Consumer], fill: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    with make(fill(numbers(3)), interceptors=[lambda messages: None]) as consumer:
        assert [each.value for each in consumer.poll(60)] == numbers(3)
    assert "returned None, not a list of messages" in caplog.text


@pytest.mark.parametrize("at", [1, 3, 8, 13, 18])
def test_ctrl_c_in_a_deserializer_costs_no_messages_and_does_none(
    at: int,
    make: Callable[..., Consumer],
    fill: Callable[..., str],
    admin: Admin,
    unique: Names,
) -> None:
    topic = fill(*[numbers(5)] * 4)
    group = unique("group")
    consumer = make(group_id=group, value_deserializer=Once(KeyboardInterrupt(), at))
    consumer.assign([(topic, index) for index in range(4)])
    found: list[Message] = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - polls until then
        while True:
            found += consumer.poll(60)
    before = len(found)
    more, _ = until(consumer, 20 - before, KeyboardInterrupt)
    assert sorted(each[1:3] for each in found + more) == [
        (p, o) for p in range(4) for o in range(5)
    ]
    consumer.close()
    assert sum(each.offset for each in admin.group_offsets(group).values()) == 20


def test_what_a_poll_had_found_before_ctrl_c_is_not_done(
    make: Callable[..., Consumer], fill: Callable[..., str], admin: Admin, unique: Names
) -> None:
    topic = fill(*[numbers(5)] * 4)
    group = unique("group")
    consumer = make(group_id=group, value_deserializer=Once(KeyboardInterrupt(), 18))
    consumer.assign([(topic, index) for index in range(4)])
    handed = 0
    try:
        while True:
            handed += len(consumer.poll(60))
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()
    assert sum(each.offset for each in admin.group_offsets(group).values()) == handed


def test_a_stream_goes_on_behind_what_it_could_not_read(
    make: Callable[..., Consumer], fill: Callable[..., str]
) -> None:
    topic = fill([b"0", b"?", b"2", b"!", b"4"])
    with make(value_deserializer=int) as consumer:
        stream = consumer.streams(topic)[0]
        seen: list[int] = []
        while 4 not in seen:
            try:
                for message in stream:
                    seen.append(message.value)
                    if message.value == 4:
                        break
            except BadMessage as error:
                seen.append(-error.offset)
        assert seen == [0, -1, 2, -3, 4]
        consumer.seek(topic, 0, 1)
        with pytest.raises(BadMessage):
            next(stream)
        assert next(stream).value == 2


@pytest.mark.parametrize("verdict", ["text", {}, 3])
def test_an_answer_that_is_no_message_is_told_and_the_message_comes_again(
    verdict: object, make: Callable[..., Consumer], fill: Callable[..., str]
) -> None:
    answers = [verdict, None]
    with make(
        fill([b"?", b"1"]), value_deserializer=int, on_bad=lambda _: answers.pop(0)
    ) as consumer:
        with pytest.raises(TypeError, match="it must return a Message, or None to skip"):
            consumer.poll(60)
        assert [each.value for each in consumer.poll(60)] == [1]
    assert not answers


ROWS = 70_000
"""More than an Arrow batch has, and less than one fetch brings."""


def test_columns_that_are_left_in_the_middle_of_a_fetch_go_on_there(
    make: Callable[..., Consumer], fill: Callable[..., str]
) -> None:
    with make(fill([b""] * ROWS)) as consumer:
        for batch in consumer.arrow_batches():
            first = batch.num_rows
            break
        assert 0 < first < ROWS
        assert [each.offset for each in consumer.poll(60, 2)] == [first, first + 1]
        rest = consumer.read_arrow(timeout=60).column("offset")
        assert rest[0].as_py() == first + 2


async def test_so_do_columns_on_a_loop(bootstrap: str, fill: Callable[..., str]) -> None:
    topic = fill([b""] * ROWS)
    options = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
    async with aio.Consumer(topic, **options) as consumer:
        batches = consumer.arrow_batches()
        first = (await anext(batches)).num_rows
        assert 0 < first < ROWS
        assert [each.offset for each in await consumer.poll(60, 2)] == [first, first + 1]
        assert (await anext(batches)).column("offset")[0].as_py() == first + 2
        await batches.aclose()


def test_columns_that_another_thread_has_in_hand_are_not_done(
    make: Callable[..., Consumer], fill: Callable[..., str], admin: Admin, unique: Names
) -> None:
    topic, group = fill(numbers(10)), unique("group")
    has_some, may_end = threading.Event(), threading.Event()
    consumer = make(topic, group_id=group)

    def work() -> None:
        assert consumer.read_arrow(timeout=60).num_rows
        has_some.set()
        may_end.wait(60)

    worker = threading.Thread(target=work)
    worker.start()
    assert has_some.wait(60)
    consumer.close()
    may_end.set()
    worker.join()
    assert committed(admin, {"group_id": group}, topic) in (None, 0)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_offset_that_was_committed_before_is_committed_again_if_it_has_been_moved(
    protocol: str,
    make: Callable[..., Consumer],
    fill: Callable[..., str],
    admin: Admin,
    unique: Names,
) -> None:
    """What was committed at last is remembered for as long as nobody else can have committed there."""
    topic, group = fill(numbers(10)), unique("group")
    with make(group_id=group, group_protocol=protocol) as consumer:
        for _ in range(2):
            consumer.subscribe(topic)
            until(consumer, 10, TimeoutError)
            consumer.poll()
            consumer.unsubscribe()
            assert committed(admin, {"group_id": group}, topic) == 10
            admin.alter_group_offsets(group, {TopicPartition(topic, 0): 0})
