"""Batching: when a batch is full, when it has lingered, and what it costs."""

import pytest

from tidelog.client.accumulator import Accumulator, BufferFull, PartitionQueue
from tidelog.client.batch import Batch
from tidelog.client.partitioning import Candidates
from tidelog.client.settings import ProducerSettings, load
from tidelog.errors import MessageTooLarge, TidelogError
from tidelog.names import TopicPartition
from tidelog.records import Codec, read_records
from tidelog.testing.manual_clock import ManualClock


def make(**options: object) -> tuple[Accumulator, ManualClock]:
    settings = load(ProducerSettings, {"bootstrap.servers": "x:1"}, options)
    clock = ManualClock()
    return Accumulator(settings, clock, lambda: None), clock


def put(acc: Accumulator, value: bytes, partition: int | None = 0, key: bytes | None = None):  # type: ignore[no-untyped-def]
    return acc.append("t", partition, Candidates(4, (0, 1, 2, 3)), 1000, key, value, ())


def test_a_full_batch_is_sealed_and_another_begun() -> None:
    acc, _ = make(batch_size=1000)
    for _ in range(5):
        put(acc, b"x" * 276)  # 300 with what is around it
    queue = acc.queues[TopicPartition("t", 0)]
    assert [batch.sealed for batch in queue.batches] == [True, False]
    assert queue.batches[0].count == 3


def test_a_message_larger_than_a_batch_has_one_of_its_own() -> None:
    acc, _ = make(batch_size=100)
    put(acc, b"a")
    put(acc, b"x" * 500)
    put(acc, b"b")
    assert [batch.sealed for batch in acc.queues[TopicPartition("t", 0)].batches] == [
        True,
        True,
        False,
    ]


def test_batches_linger() -> None:
    acc, clock = make(linger_ms=50)
    put(acc, b"x")
    start = clock.monotonic()
    assert acc.take_lingered(start) == pytest.approx(start + 0.05)
    assert acc.take_lingered(start + 0.06) is None
    assert acc.queues[TopicPartition("t", 0)].batches[0].sealed


def test_records_without_a_partition_stick_to_one_until_its_batch_is_full() -> None:
    acc, _ = make(batch_size=200)
    for _ in range(7):
        put(acc, b"x" * 40, partition=None)
    sizes = [
        batch.count or batch.draft.count for queue in acc.queues.values() for batch in queue.batches
    ]
    assert sorted(sizes) == [1, 3, 3]


def test_memory_is_bounded_and_given_back() -> None:
    acc, _ = make(buffer_memory=500, max_request_size=400)
    put(acc, b"x" * 300)
    with pytest.raises(BufferFull):
        put(acc, b"x" * 300)
    (batch,) = acc.seal_all()
    acc.release(batch)
    assert acc.used_bytes == 0
    put(acc, b"x" * 300)


def test_a_message_that_never_fits_is_refused_with_the_cure() -> None:
    acc, _ = make(max_request_size=1000)
    with pytest.raises(MessageTooLarge, match=r"2024 bytes .* max\.request\.size=1000"):
        put(acc, b"x" * 2000)


def test_a_sealed_batch_reads_back() -> None:
    acc, _ = make(compression_type="zstd")
    put(acc, b"one", key=b"k")
    put(acc, b"two")
    (batch,) = acc.seal_all()
    batch.number(Codec.ZSTD, 7, 1, 40)
    assert [(each.key, each.value) for each in read_records(batch.data)] == [
        (b"k", b"one"),
        (None, b"two"),
    ]


def test_batches_that_come_back_are_queued_where_they_were() -> None:
    queue = PartitionQueue(TopicPartition("t", 0))
    batches = [Batch(queue.partition, 0, 0) for _ in range(5)]
    for batch in batches:
        queue.add(batch)
    for _ in range(3):
        queue.batches.popleft()
    for batch in (batches[1], batches[0], batches[2]):
        queue.put_back(batch)
    assert list(queue.batches) == batches


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_buffers_are_used_again_and_few_are_kept(codec: str) -> None:
    acc, _ = make(compression_type=codec, batch_size=1 << 20, buffer_memory=1 << 25)
    for _ in range(20):
        put(acc, bytes(900_000), partition=0)
    batches = acc.seal_all()
    assert len(batches) == 20
    for batch in batches:
        acc.release(batch)
        assert not batch.data
    assert len(acc._spare) == (8 if codec == "none" else 2)  # compressed, it is free at once
    used = {id(each) for each in acc._spare}
    put(acc, b"short", partition=0)
    (batch,) = acc.seal_all()
    assert id(batch.data if codec == "none" else acc._spare[-1]) in used
    batch.number(Codec[codec.upper()], -1, -1, -1)
    assert [each.value for each in read_records(batch.data)] == [b"short"]


def test_a_closed_accumulator_takes_nothing_more() -> None:
    acc, _ = make()
    delivery = put(acc, b"x", partition=None)
    drafts = acc.drafts["t"]
    acc.close()
    assert drafts.add(b"y", None, None) is None
    with pytest.raises(TidelogError, match="closed"):
        put(acc, b"y", partition=None)
    (batch,) = acc.pending
    batch.finish(error=TidelogError("too late"))
    acc.release(batch)
    assert (str(delivery.exception()), acc.used_bytes) == ("too late", 0)
