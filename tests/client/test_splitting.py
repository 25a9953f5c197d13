"""Batches that a topic finds too large are cut until they fit; a message that does not is named."""

from collections.abc import Callable

import pytest

from tidelog import Admin, Producer, SimpleConsumer
from tidelog.errors import DeliveryFailed, MessageTooLarge


@pytest.fixture
def narrow(admin: Admin, unique: Callable[[str], str]) -> str:
    """A topic that takes batches of 2000 bytes."""
    name = unique("narrow")
    admin.create_topics({name: 1}, configs={"max.message.bytes": "2000"})
    return name


def everything(bootstrap: str, topic: str) -> list[bytes]:
    with SimpleConsumer(bootstrap_servers=bootstrap) as consumer:
        (end,) = consumer.offsets_before(topic, 0, -1)
        found: list[bytes] = []
        while len(found) < end:
            found += [each.value for each in consumer.fetch(topic, 0, len(found))]
        return found


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize(
    "options",
    [{}, {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}],
    ids=["numbered", "one by one"],
)
def test_a_batch_is_cut_until_it_fits(
    bootstrap: str, narrow: str, codec: str, options: dict[str, object]
) -> None:
    values = [b"%05d" % number + bytes(range(200)) for number in range(500)]
    with Producer(
        options,
        bootstrap_servers=bootstrap,
        compression_type=codec,
        linger_ms=50,
        batch_size=30_000,
    ) as producer:
        deliveries = [
            producer.send(narrow, value, headers={"n": b"%d" % number})
            for number, value in enumerate(values)
        ]
        producer.flush()
        assert [each.result().offset for each in deliveries] == list(range(500))
        assert producer._core.accumulator.used_bytes == 0
    assert everything(bootstrap, narrow) == values


def test_only_the_message_that_is_too_large_fails(bootstrap: str, narrow: str) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        before = [producer.send(narrow, b"small") for _ in range(20)]
        large = producer.send(narrow, b"x" * 5000)
        after = [producer.send(narrow, b"small") for _ in range(20)]
        with pytest.raises(DeliveryFailed, match="1 record"):
            producer.flush()
        assert isinstance(large.exception(), MessageTooLarge)
        with pytest.raises(MessageTooLarge, match=r"message of 50\d\d bytes.*max\.message\.bytes"):
            large.result()
        offsets = [each.result().offset for each in before + after]
        assert sorted(offsets) == list(range(40))


def test_a_batch_is_cut_in_a_transaction(
    bootstrap: str, narrow: str, unique: Callable[[str], str]
) -> None:
    with (
        Producer(
            bootstrap_servers=bootstrap, linger_ms=50, transactional_id=unique("mine")
        ) as producer,
        producer.transaction(),
    ):
        deliveries = [producer.send(narrow, b"x" * 200) for _ in range(100)]
    assert [each.result().offset for each in deliveries] == list(range(100))


def test_a_message_larger_than_a_request_is_refused_at_once(bootstrap: str, narrow: str) -> None:
    with (
        Producer(bootstrap_servers=bootstrap, max_request_size=1000) as producer,
        pytest.raises(MessageTooLarge, match=r"10\d\d bytes.*max\.request\.size=1000"),
    ):
        producer.send(narrow, b"x" * 1001)
