"""A delivery that failed is told: by itself to whoever looks, and by `flush`, `close` and the end of the block to the rest."""

import asyncio
import logging
import sys
import threading
import time

import pytest

from tidelog import Producer, TopicPartition, aio
from tidelog.client import failures
from tidelog.client.batch import Batch, ReadyBatch
from tidelog.errors import DeliveryFailed, InvalidRecord, NetworkException, TidelogError
from tidelog.records import Codec
from tidelog.records.builder import build_batch
from tidelog.testing.fixture import Tidelog
from tidelog.testing.local_broker import LocalBroker

SOON_S = 10.0


@pytest.fixture
def refused(tidelog: Tidelog) -> str:
    """A topic to which nothing can be written."""
    topic = tidelog.topic("refused", 2)
    tidelog.faults.fail("Produce", "INVALID_RECORD", times=None, topic=topic)
    return topic


def test_leaving_the_block_tells_what_nobody_has_looked_at(tidelog: Tidelog, refused: str) -> None:
    def lose() -> None:
        with Producer(bootstrap_servers=tidelog.bootstrap) as producer:
            for _ in range(3):
                producer.send(refused, b"x", partition=1)

    with pytest.raises(DeliveryFailed, match="3 records were not delivered") as told:
        lose()
    assert told.value.count == 3
    assert told.value.partition == TopicPartition(refused, 1)
    assert isinstance(told.value.first, InvalidRecord)
    assert told.value.__cause__ is told.value.first
    assert f"{refused}-1" in str(told.value)


def test_flush_tells_it_once(tidelog: Tidelog, refused: str) -> None:
    with Producer(bootstrap_servers=tidelog.bootstrap) as producer:
        deliveries = producer.send_many(refused, [b"a", b"b"], partition=0)
        with pytest.raises(DeliveryFailed, match="2 records"):
            producer.flush()
        producer.flush()
        assert all(isinstance(each.exception(), InvalidRecord) for each in deliveries)
        producer.send(refused, b"c", partition=0)
        with pytest.raises(DeliveryFailed, match="1 record was not delivered"):
            producer.flush()
        with pytest.raises(InvalidRecord):
            producer.send(refused, b"d", partition=0).result()


def test_what_was_looked_at_is_not_told_again(tidelog: Tidelog, refused: str) -> None:
    with Producer(bootstrap_servers=tidelog.bootstrap) as producer:
        first, second, third = producer.send_many(refused, [b"a", b"b", b"c"], partition=0)
        assert isinstance(first.exception(), InvalidRecord)
        assert isinstance(first.exception(), InvalidRecord)
        with pytest.raises(InvalidRecord):
            third.result()
        with pytest.raises(DeliveryFailed, match="1 record was not"):
            producer.flush()
        assert second.exception() is not None


def test_a_callback_that_looks_has_looked(tidelog: Tidelog, refused: str) -> None:
    """Also if `flush` waits: it does not return before the callbacks have."""
    seen: list[Exception | None] = []

    def slow_look(delivery: object) -> None:
        time.sleep(0.05)
        seen.append(delivery.exception())  # type: ignore[attr-defined]

    with Producer(bootstrap_servers=tidelog.bootstrap) as producer:
        producer.send(refused, b"a", partition=0).add_done_callback(slow_look)
        producer.flush()
        assert len(seen) == 1
        producer.send(refused, b"b", partition=0).add_done_callback(lambda _: None)
        with pytest.raises(DeliveryFailed):
            producer.flush()


def test_a_callback_that_fails_keeps_nobody_waiting(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    def fails(_: object) -> None:
        raise RuntimeError("of the user's own")

    with Producer(bootstrap_servers=bootstrap, linger_ms=200) as producer:
        delivery = producer.send(topic, b"a", partition=0)
        delivery.add_done_callback(fails)
        delivery.add_done_callback(lambda each: seen.append(each.result().offset))
        producer.flush(SOON_S)
    assert seen == [0]
    assert "a delivery callback failed" in caplog.text


def test_a_callback_that_would_end_the_program_keeps_nobody_waiting(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`sys.exit` cannot do so from the client's thread, and must not end that."""

    def leaves(_: object) -> None:
        sys.exit(3)

    with Producer(bootstrap_servers=bootstrap, linger_ms=200) as producer:
        producer.send(topic, b"a", partition=0).add_done_callback(leaves)
        producer.flush(SOON_S)
        assert producer.send(topic, b"b", partition=0).result(SOON_S).offset == 1
    assert "a delivery callback failed" in caplog.text


def test_a_callback_that_comes_late_and_fails_does_not_fail_the_caller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`send` would tell of a record that was written that it was not."""
    batch = Batch(TopicPartition("t", 0), 0, 0)
    batch.finish(0)

    def fails() -> None:
        raise RuntimeError("of the user's own")

    batch.when_done(fails)
    assert "a delivery callback failed" in caplog.text


def test_callbacks_are_called_in_order_whenever_they_come() -> None:
    """Also one that comes while others are being called: `flush` is such a one."""
    batch = Batch(TopicPartition("t", 0), 0, 0)
    order: list[str] = []

    def first() -> None:
        order.append("first")
        batch.when_done(lambda: order.append("third"))

    batch.when_done(first)
    batch.when_done(lambda: order.append("second"))
    batch.finish(7)
    assert order == ["first", "second", "third"]
    batch.when_done(lambda: order.append("at once"))
    assert order[-1] == "at once"


def test_a_part_that_failed_is_the_failure_of_the_whole() -> None:
    """Whoever passes whole batches on looks at their error, and a batch may have been cut in two."""
    data = build_batch([(1000, None, b"%d" % number, ()) for number in range(4)])
    batch = ReadyBatch(TopicPartition("t", 0), 0, 0, data)
    first, second = batch.split(Codec.NONE, None)
    first.finish(5)
    assert not batch.done
    second.finish(error=InvalidRecord("no"))
    assert batch.done
    assert isinstance(batch.error, InvalidRecord)
    assert not second.watched


def test_the_error_of_the_block_is_not_hidden(
    tidelog: Tidelog, refused: str, caplog: pytest.LogCaptureFixture
) -> None:
    def lose() -> None:
        with Producer(bootstrap_servers=tidelog.bootstrap) as producer:
            producer.send(refused, b"x", partition=1)
            raise ValueError("of the block")

    with pytest.raises(ValueError, match="of the block") as told:
        lose()
    assert any("1 record was not delivered" in note for note in told.value.__notes__)
    assert "1 record was not delivered" in caplog.text


async def test_the_async_face_tells_the_same(tidelog: Tidelog, refused: str) -> None:
    with pytest.raises(DeliveryFailed, match="2 records"):
        async with aio.Producer(bootstrap_servers=tidelog.bootstrap) as producer:
            await producer.send_many(refused, [b"a", b"b"], partition=0)
    async with aio.Producer(bootstrap_servers=tidelog.bootstrap) as producer:
        await producer.send(refused, b"c", partition=0)
        with pytest.raises(DeliveryFailed, match="1 record"):
            await producer.flush()
        with pytest.raises(InvalidRecord):
            await (await producer.send(refused, b"d", partition=0))


def test_a_warning_meanwhile_once_a_second_at_most(
    tidelog: Tidelog, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned = threading.Semaphore(0)
    texts: list[str] = []

    class Listen(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(record.getMessage())
            warned.release()

    monkeypatch.setattr(failures, "WARN_EVERY_S", 0.2)
    log = logging.getLogger(failures.__name__)
    listen = Listen(logging.WARNING)
    log.addHandler(listen)
    try:
        with Producer(bootstrap_servers=tidelog.bootstrap, linger_ms=0) as producer:
            for _ in range(20):
                producer.send(refused, b"x", partition=0)
            assert warned.acquire(timeout=SOON_S)
            assert "not delivered" in texts[0]
            assert f"{refused}-0" in texts[0]
            with pytest.raises(DeliveryFailed):
                producer.flush()
            assert isinstance(producer.send(refused, b"y", partition=0).exception(), InvalidRecord)
    finally:
        log.removeHandler(listen)
    assert len(texts) < 20  # and not one for each batch


def test_the_error_says_why_and_so_does_ctrl_c(own_broker: LocalBroker) -> None:
    def lose() -> None:
        with Producer(bootstrap_servers=own_broker.bootstrap) as producer:
            producer.send("t", b"a").result(SOON_S)
            own_broker.kill()
            producer.send("t", b"b")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as told:
        lose()
    (note,) = told.value.__notes__
    assert "1 record was not delivered to t-" in note
    assert "cannot connect to" in note


# ------------------------------------------------------------------ closing in time


def test_close_gives_up_in_time_and_tells_what_was_not_delivered(tidelog: Tidelog) -> None:
    topic = tidelog.topic("held")
    tidelog.faults.freeze(topic, 0)
    producer = Producer(bootstrap_servers=tidelog.bootstrap)
    delivery = producer.send(topic, b"x", partition=0)
    begun = time.monotonic()
    with pytest.raises(DeliveryFailed, match="1 record was not delivered"):
        producer.close(timeout=0.2)
    assert time.monotonic() - begun < SOON_S
    assert isinstance(delivery.exception(), NetworkException)
    producer.close()  # tells nothing twice
    with pytest.raises(TidelogError, match="closed"):
        producer.send(topic, b"y")


async def test_a_cancelled_close_is_finished_by_the_second(tidelog: Tidelog) -> None:
    topic = tidelog.topic("held")
    with tidelog.faults.freeze(topic, 0):
        producer = aio.Producer(bootstrap_servers=tidelog.bootstrap)
        await producer.send(topic, b"x", partition=0)
        closing = asyncio.ensure_future(producer.close())
        for _ in range(3):  # it has begun, and waits for the acknowledgement
            await asyncio.sleep(0)
        assert producer.closed
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        async with asyncio.timeout(SOON_S):
            with pytest.raises(DeliveryFailed, match="1 record"):
                await producer.close()
        await producer.close()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_two_closes_at_once_end_together(tidelog: Tidelog) -> None:
    topic = tidelog.topic("slow")
    tidelog.faults.delay("Produce", 0.2, topic=topic)
    producer = aio.Producer(bootstrap_servers=tidelog.bootstrap)
    delivery = await producer.send(topic, b"x", partition=0)
    await asyncio.gather(producer.close(), producer.close(5))
    assert (await delivery).offset == 0


def test_two_threads_may_close(tidelog: Tidelog) -> None:
    topic = tidelog.topic("slow")
    tidelog.faults.delay("Produce", 0.2, topic=topic)
    producer = Producer(bootstrap_servers=tidelog.bootstrap)
    delivery = producer.send(topic, b"x", partition=0)
    other = threading.Thread(target=producer.close)
    other.start()
    producer.close()
    other.join(SOON_S)
    assert not other.is_alive()
    assert delivery.result(0).offset == 0


def test_a_callback_must_not_wait_for_its_own_client(bootstrap: str, topic: str) -> None:
    told: list[str] = []
    with Producer(bootstrap_servers=bootstrap, linger_ms=200) as producer:

        def waits(_: object) -> None:
            for call in (producer.flush, producer.close, lambda: producer.partitions_for(topic)):
                try:
                    call()
                except TidelogError as error:
                    told.append(str(error))

        producer.send(topic, b"a", partition=0).add_done_callback(waits)
        producer.flush(SOON_S)
    assert len(told) == 3
    assert all("own thread" in each for each in told)
