"""What a consumer promises: nothing is skipped, and nothing counts as done before it is."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tidelog import (
    Admin,
    BadMessage,
    Consumer,
    DeadLetters,
    Message,
    Producer,
    TopicPartition,
    aio,
)

Names = Callable[[str], str]


class Failure(Exception):
    """What the user's own code raises."""


@pytest.fixture
def filled(bootstrap: str, admin: Admin, unique: Names) -> str:
    """A topic with 1,000 messages in one partition."""
    name = unique("contract")
    admin.create_topics({name: 1})
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(name, [b"%d" % number for number in range(1000)], partition=0)
    return name


@pytest.fixture
def options(bootstrap: str, unique: Names) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap,
        "group_id": unique("contract"),
        "auto_offset_reset": "earliest",
    }


def committed(admin: Admin, options: dict[str, Any], topic: str) -> int | None:
    found = admin.group_offsets(options["group_id"])
    tp = TopicPartition(topic, 0)
    return found[tp].offset if tp in found else None


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(done):  # noqa: ASYNC110 - a broker gives no event
            await asyncio.sleep(0.01)


# Nothing is skipped.


async def test_a_loop_that_is_left_goes_on_where_it_was(filled: str, bootstrap: str) -> None:
    options = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
    async with aio.Consumer(topics=filled, **options) as consumer:
        seen: list[int] = []
        async for message in consumer:
            seen.append(message.offset)
            if len(seen) == 3:
                break
        with pytest.raises(Failure):  # noqa: PT012 - the block is what is tested
            async for message in consumer:
                seen.append(message.offset)
                if len(seen) == 6:
                    raise Failure
        async for message in consumer:
            seen.append(message.offset)
            if len(seen) == 9:
                break
        many = await consumer.getmany(timeout=60, max_records=1)
        seen += [each.offset for each in many[TopicPartition(filled, 0)]]
    assert seen == list(range(10))


async def test_an_async_seek_within_the_loop_takes_hold_at_once(
    filled: str, bootstrap: str
) -> None:
    async with aio.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([(filled, 0)])
        seen: list[int] = []
        async for message in consumer:
            seen.append(message.offset)
            if message.offset == 2:
                await consumer.seek(filled, 0, 800)
            if message.offset == 801:
                break
        assert seen == [0, 1, 2, 800, 801]


async def test_an_async_iterator_survives_a_timeout(filled: str, bootstrap: str) -> None:
    async with aio.Consumer(bootstrap_servers=bootstrap) as consumer:
        await consumer.assign([(filled, 0)])
        await consumer.seek_to_end()
        messages = aiter(consumer)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(messages), 0.05)
        await consumer.seek(filled, 0, 7)
        assert (await anext(messages)).offset == 7
        assert (await consumer.getone()).offset == 8


# Nothing is done too early.


def test_a_block_that_fails_does_not_commit_the_message_in_hand(
    filled: str, admin: Admin, options: dict[str, Any]
) -> None:
    with pytest.raises(Failure), Consumer(topics=filled, **options) as consumer:  # noqa: PT012 - the block is what is tested
        for message in consumer:
            if message.offset == 3:
                raise Failure
    assert committed(admin, options, filled) == 3


async def test_an_async_block_that_fails_does_not_commit_the_message_in_hand(
    filled: str, admin: Admin, options: dict[str, Any]
) -> None:
    with pytest.raises(Failure):  # noqa: PT012 - the block is what is tested
        async with aio.Consumer(topics=filled, **options) as consumer:
            async for message in consumer:
                if message.offset == 3:
                    raise Failure
    assert committed(admin, options, filled) == 3


def test_close_by_hand_does_not_commit_the_message_in_hand(
    filled: str, admin: Admin, options: dict[str, Any]
) -> None:
    consumer = Consumer(topics=filled, **options)
    for message in consumer:
        if message.offset == 3:
            break
    consumer.close()
    assert committed(admin, options, filled) == 3


async def test_an_async_close_by_hand_does_not_commit_the_message_in_hand(
    filled: str, admin: Admin, options: dict[str, Any]
) -> None:
    consumer = aio.Consumer(topics=filled, **options)
    async for message in consumer:
        if message.offset == 3:
            break
    await consumer.close()
    assert committed(admin, options, filled) == 3


@pytest.mark.parametrize("way", ["block", "failed block", "close", "close in finally"])
def test_a_polled_batch_is_done_when_the_reader_says_so(
    way: str, filled: str, admin: Admin, options: dict[str, Any]
) -> None:
    """At the next poll, or at the end if that is no failure."""
    consumer = Consumer(topics=filled, **options)
    try:
        if way.endswith("block"):
            with consumer:
                assert len(consumer.poll(60, max_records=10)) == 10
                assert len(consumer.poll(60, max_records=10)) == 10
                if way == "failed block":
                    raise Failure
        else:
            consumer.poll(60, max_records=10)
            consumer.poll(60, max_records=10)
            if way == "close in finally":
                raise Failure
            consumer.close()
    except Failure:
        consumer.close()
    assert committed(admin, options, filled) == (20 if way in ("block", "close") else 10)


async def test_an_async_polled_batch_in_a_block_that_fails_is_not_done(
    filled: str, admin: Admin, options: dict[str, Any]
) -> None:
    with pytest.raises(Failure):  # noqa: PT012 - the block is what is tested
        async with aio.Consumer(topics=filled, **options) as consumer:
            await consumer.poll(60, max_records=10)
            await consumer.poll(60, max_records=10)
            raise Failure
    assert committed(admin, options, filled) == 10


async def test_what_another_task_has_in_hand_is_not_done_when_the_block_ends(
    filled: str, admin: Admin, options: dict[str, Any]
) -> None:
    working = asyncio.Event()

    async def work(consumer: aio.Consumer) -> None:
        async for message in consumer:
            if message.offset == 3:
                working.set()
                await asyncio.Event().wait()

    async with aio.Consumer(topics=filled, **options) as consumer:
        task = asyncio.create_task(work(consumer))
        await working.wait()
    task.cancel()
    assert committed(admin, options, filled) == 3


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_what_is_committed_meanwhile_is_what_is_done(
    protocol: str, filled: str, admin: Admin, options: dict[str, Any]
) -> None:
    """The message in hand is not, those before it are, though they came in one fetch."""
    async with aio.Consumer(
        topics=filled, group_protocol=protocol, auto_commit_interval_ms=20, **options
    ) as consumer:
        async for message in consumer:
            if message.offset == 3:
                await until(lambda: committed(admin, options, filled) == 3)
            if message.offset == 4:
                await until(lambda: committed(admin, options, filled) == 4)
                break


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_that_begins_at_the_end_keeps_its_place_from_then_on(
    protocol: str, filled: str, bootstrap: str, admin: Admin, options: dict[str, Any]
) -> None:
    """Whoever comes after a member that died at once does not begin at a later end."""
    options |= {"auto_offset_reset": "latest", "auto_commit_interval_ms": 3_600_000}
    first = aio.Consumer(topics=filled, group_protocol=protocol, **options)
    try:
        await until(lambda: committed(admin, options, filled) == 1000)
    finally:
        await first.let_go()  # as a process that dies: it commits nothing more
    async with aio.Producer(bootstrap_servers=bootstrap) as producer:
        await producer.send(filled, b"meanwhile", partition=0)
    async with aio.Consumer(**options) as second:
        await second.assign([(filled, 0)])
        assert [each.value for each in await second.poll(30.0)] == [b"meanwhile"]


async def test_a_place_at_the_end_is_not_committed_for_those_who_commit_by_hand(
    filled: str, admin: Admin, options: dict[str, Any]
) -> None:
    options |= {"auto_offset_reset": "latest", "enable_auto_commit": False}
    async with aio.Consumer(topics=filled, **options) as consumer:
        async with asyncio.timeout(30):
            while not await consumer.positions():
                await consumer.poll(0.05)
    assert committed(admin, options, filled) is None


# A message that cannot be read.


def picky(data: bytes) -> int:
    if data == b"500":
        raise ValueError("500 is not a number that I like")
    return int(data)


def test_one_bad_message_costs_nothing_else(
    filled: str, admin: Admin, options: dict[str, Any]
) -> None:
    found: list[Message] = []
    with Consumer(topics=filled, value_deserializer=picky, **options) as consumer:
        while len(found) < 500:
            found += consumer.poll(60)
        with pytest.raises(BadMessage, match=f"{filled}-0 at offset 500.*500 is not a number") as e:
            consumer.poll(60)
        assert (e.value.topic, e.value.partition, e.value.offset) == (filled, 0, 500)
        assert e.value.message.value == b"500"
        assert isinstance(e.value.__cause__, ValueError)
        consumer.seek(filled, 0, e.value.offset)  # again with it
        with pytest.raises(BadMessage):
            next(iter(consumer))
        while len(found) < 999:
            found += consumer.poll(60)
    assert [each.value for each in found] == [n for n in range(1000) if n != 500]
    assert committed(admin, options, filled) == 1000


async def test_one_bad_message_costs_nothing_else_on_a_loop(
    filled: str, admin: Admin, options: dict[str, Any]
) -> None:
    found: list[int] = []
    with pytest.raises(BadMessage):  # noqa: PT012 - the block is what is tested
        async with aio.Consumer(topics=filled, value_deserializer=picky, **options) as consumer:
            async for message in consumer:
                found.append(message.value)
    assert found == list(range(500))
    # It was not done with: the next one meets it again.
    assert committed(admin, options, filled) == 500
    async with aio.Consumer(topics=filled, value_deserializer=picky, **options) as consumer:
        with pytest.raises(BadMessage, match="offset 500"):
            await consumer.getone()
        async for message in consumer:
            found.append(message.value)
            if message.offset == 999:
                break
    assert found == [n for n in range(1000) if n != 500]


def test_bad_messages_may_be_skipped_or_replaced(filled: str, options: dict[str, Any]) -> None:
    def always(_: bytes) -> None:
        raise ValueError("no")

    bad: list[int] = []

    def replace(error: BadMessage) -> Message | None:
        bad.append(error.offset)
        if error.offset % 2:
            return None
        return error.message._replace(value="bad")

    with Consumer(topics=filled, value_deserializer=picky, on_bad="skip", **options) as consumer:
        found = [message.offset for message in itertools.islice(consumer, 999)]
    assert found == [n for n in range(1000) if n != 500]
    options["group_id"] += "-2"
    with Consumer(topics=filled, value_deserializer=always, on_bad=replace, **options) as consumer:
        messages = list(itertools.islice(consumer, 500))
    assert {each.value for each in messages} == {"bad"}
    assert [each.offset for each in messages] == list(range(0, 1000, 2))
    assert bad[:999] == list(range(999))


def test_what_the_judge_raises_is_raised_and_the_message_comes_again(
    filled: str, options: dict[str, Any]
) -> None:
    tries = itertools.count()

    def judge(error: BadMessage) -> None:
        if next(tries) < 2:
            raise Failure

    with Consumer(topics=filled, value_deserializer=picky, on_bad=judge, **options) as consumer:
        messages = iter(consumer)
        assert [next(messages).offset for _ in range(500)] == list(range(500))
        for _ in range(2):
            with pytest.raises(Failure):
                next(iter(consumer))
        assert next(iter(consumer)).offset == 501


async def test_dead_letters(
    filled: str, bootstrap: str, unique: Names, options: dict[str, Any]
) -> None:
    dead = unique("dead")
    with (
        Producer(bootstrap_servers=bootstrap) as producer,
        Consumer(
            topics=filled,
            value_deserializer=picky,
            on_bad=DeadLetters(producer, dead),
            **options,
        ) as consumer,
    ):
        assert len(list(itertools.islice(consumer, 999))) == 999
    options["group_id"] += "-2"
    async with (
        aio.Producer(bootstrap_servers=bootstrap) as producer,
        aio.Consumer(
            topics=filled,
            value_deserializer=picky,
            on_bad=DeadLetters(producer, dead),
            **options,
        ) as consumer,
    ):
        async for message in consumer:
            if message.offset == 999:
                break
    with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", topics=dead
    ) as consumer:
        for message in itertools.islice(consumer, 2):
            assert message.value == b"500"
            headers = dict(message.headers)
            assert headers["dead-letter.topic"] == filled.encode()
            assert headers["dead-letter.offset"] == b"500"
            assert b"500 is not a number" in (headers["dead-letter.error"] or b"")


class Away(Exception):
    retriable = True


@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_a_registry_that_is_away_is_waited_for(
    policy: Any, filled: str, options: dict[str, Any]
) -> None:
    tries = itertools.count()

    def deserialize(data: bytes) -> bytes:
        if data == b"3" and next(tries) < 3:
            raise Away("no schema registry answers")
        return data

    with Consumer(
        topics=filled, value_deserializer=deserialize, on_bad=policy, **options
    ) as consumer:
        assert [each.offset for each in itertools.islice(consumer, 6)] == list(range(6))


async def test_a_registry_that_stays_away_is_an_error_in_the_end_and_nothing_is_lost(
    filled: str, options: dict[str, Any]
) -> None:
    away = True

    def deserialize(data: bytes) -> bytes:
        if away:
            raise Away("no schema registry answers")
        return data

    async with aio.Consumer(
        topics=filled, value_deserializer=deserialize, on_bad="skip", **options
    ) as consumer:
        for _ in range(2):
            with pytest.raises(Away):
                await consumer.poll(2.0)
        away = False
        assert (await consumer.getone()).offset == 0


# A reader that waits is alive.


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_waiting_async_reader_stays_in_its_group(
    protocol: str, topic: str, options: dict[str, Any]
) -> None:
    if protocol == "classic":
        options |= {"heartbeat_interval_ms": 50}
    revoked: list[Any] = []
    async with aio.Consumer(max_poll_interval_ms=400, group_protocol=protocol, **options) as reader:
        await reader.subscribe(topic, on_lost=revoked.append, on_revoked=revoked.append)
        while not await reader.assigned():
            await reader.poll(0.02)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(aiter(reader)), 1.5)
        assert len(await reader.assigned()) == 3
        assert not revoked


def test_the_first_argument_of_poll_is_a_timeout(filled: str, bootstrap: str) -> None:
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([(filled, 0)])
        consumer.seek_to_beginning()
        assert len(consumer.poll(60.0)) > 1
        consumer.seek_to_beginning()
        assert len(consumer.poll(timeout_ms=60_000)) > 1
        consumer.seek_to_beginning()
        assert len(consumer.poll(60.0, max_records=1)) == 1


# What else a consumer can do.


def test_commits_that_nobody_waits_for_come_in_order(
    admin: Admin, filled: str, options: dict[str, Any]
) -> None:
    told: list[int] = []
    tp = TopicPartition(filled, 0)

    def on_commit(offsets: Any) -> None:
        told.append(offsets[tp])

    with Consumer(
        topics=filled,
        enable_auto_commit=False,
        on_commit=on_commit,
        default_api_timeout_ms=5000,  # for so long is tried what nobody can commit
        **options,
    ) as consumer:
        commits = []
        for message in consumer:
            commits.append(consumer.commit_async())
            if message.offset == 9:
                break
        for each in commits:
            assert each.result(timeout=60) is None
        explicit = consumer.commit_async({tp: 4})
        assert explicit.result(timeout=60) is None
        assert committed(admin, options, filled) == 4
        nobody = consumer.commit_async({TopicPartition(filled, 7): 1})
        assert nobody.exception(timeout=60) is not None, "a failure is told on the future"
    assert told[:11] == [*range(1, 11), 4]


async def test_async_commits_that_nobody_waits_for(
    admin: Admin, filled: str, options: dict[str, Any]
) -> None:
    async with aio.Consumer(topics=filled, enable_auto_commit=False, **options) as consumer:
        for number in range(5):
            assert (await consumer.getone()).offset == number
            last = consumer.commit_async()
        await last
    assert await asyncio.to_thread(committed, admin, options, filled) == 5


def test_a_consumer_that_unsubscribes_leaves_and_may_come_back(
    admin: Admin, filled: str, options: dict[str, Any]
) -> None:
    with Consumer(topics=filled, **options) as consumer:
        taken = []
        for message in consumer:
            taken.append(message.offset)
            if len(taken) == 4:
                break
        consumer.unsubscribe()
        assert consumer.assigned() == set()
        assert committed(admin, options, filled) == 3, "the message in hand is not done"
        assert admin.describe_groups([options["group_id"]])[options["group_id"]].members == ()
        assert consumer.poll(0.1) == []
        consumer.subscribe(filled)
        assert next(iter(consumer)).offset == 3


@pytest.mark.parametrize("iterates", [True, False])
def test_interceptors_see_messages_before_the_reader(
    filled: str, options: dict[str, Any], iterates: bool
) -> None:
    def only_even(messages: list[Message]) -> list[Message]:
        return [each for each in messages if int(each.value) % 2 == 0]

    seen: list[int] = []

    def watch(messages: list[Message]) -> list[Message]:
        seen.extend(each.offset for each in messages)
        return messages

    with Consumer(topics=filled, interceptors=[only_even, watch], **options) as consumer:
        found: list[int] = []
        while len(found) < 500:
            if iterates:
                found.append(next(iter(consumer)).offset)
            else:
                found += [each.offset for each in consumer.poll(10.0)]
    assert found == list(range(0, 1000, 2))
    assert seen == found


def test_an_interceptor_that_fails_costs_no_message(filled: str, options: dict[str, Any]) -> None:
    """It is a mistake of the program, told in the log; the messages are not its to lose."""

    def broken(messages: list[Message]) -> list[Message]:
        raise Failure

    with Consumer(topics=filled, interceptors=[broken], **options) as consumer:
        assert [next(iter(consumer)).offset for _ in range(3)] == [0, 1, 2]


def test_offsets_that_are_none_are_refused_before_they_are_sent(
    filled: str, options: dict[str, Any], admin: Admin
) -> None:
    """A group with a negative offset would begin anew wherever auto.offset.reset says."""
    tp = TopicPartition(filled, 0)
    with Consumer(topics=filled, **options) as consumer:
        message = consumer.poll(60)[0]
        with pytest.raises(ValueError, match=r"offset -5 of .* must be at least 0"):
            consumer.commit({tp: -5})
        wrong: Any = {tp: "5"}
        with pytest.raises(TypeError, match=r"offset '5' of .* must be a number"):
            consumer.commit(wrong)
        wrong = message
        with pytest.raises(
            TypeError, match=r"mapping .* \{message\.topic_partition: message\.offset \+ 1\}"
        ):
            consumer.commit(wrong)
        consumer.commit({message.topic_partition: message.offset + 1})
        assert committed(admin, options, filled) == 1
