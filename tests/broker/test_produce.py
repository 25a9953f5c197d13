"""Appending, acknowledging, refusing."""

import asyncio
import struct

import pytest
from hot_path import PEER, HotPath, batch, produce_request, settled
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.broker.handlers import produce as module
from tidelog.errors import KafkaStorageError, ProtocolError, UnknownTopicOrPartition
from tidelog.kernel import decode_produce
from tidelog.network.answer import Deferred
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.frame import encode_request
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.records.batch import read_records
from tidelog.records.compression import Codec
from tidelog.testing.manual_clock import ManualClock

VERSIONS = range(3, 12)


def only(response):
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return partition


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
async def test_offsets_are_given_in_order(hot, version, acks):
    first = only(await hot.ask(produce_request(batch(b"a", b"b"), acks=acks), version))
    second = only(await hot.ask(produce_request(batch(b"c"), acks=acks), version))
    assert (first.error_code, first.base_offset, first.log_append_time_ms) == (0, 0, -1)
    assert (second.error_code, second.base_offset, second.index) == (0, 2, 0)
    region = hot.partition().read(0, 1 << 20)
    records = read_records(region.read()[: len(batch(b"a", b"b"))])
    assert [each.value for each in records] == [b"a", b"b"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_several_partitions_and_an_unknown_one(hot, version):
    response = await hot.ask(produce_request(batch(), batch(b"x", b"y"), batch()), version)
    (topic,) = response.responses
    assert [(p.index, p.error_code, p.base_offset) for p in topic.partition_responses] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, UnknownTopicOrPartition.code, -1),
    ]
    assert topic.name == "events"


@pytest.mark.parametrize("version", VERSIONS)
async def test_acks_0_has_no_answer(hot, version):
    assert hot.serve(produce_request(batch(), acks=0), version) is None
    assert hot.partition().log_end_offset == 1


async def test_acks_0_with_an_error_closes_the_connection(hot):
    with pytest.raises(ProtocolError, match="acks=0"):
        hot.serve(produce_request(batch(), acks=0, index=9), 9)


@pytest.mark.parametrize("version", [3, 9, 11])
async def test_other_acks_are_refused_and_nothing_is_written(hot, version):
    for acks in (2, -2):
        assert only(await hot.ask(produce_request(batch(), acks=acks), version)).error_code == 21
    assert hot.partition().log_end_offset == 0


async def refused(hot, records, version=9, **rest):
    response = only(await hot.ask(produce_request(records, **rest), version))
    assert response.base_offset == -1
    return response.error_code


async def test_bad_batches(hot):
    good = batch(b"a")
    corrupt = bytearray(good)
    corrupt[-1] ^= 1
    old = bytearray(good)
    old[16] = 1
    assert await refused(hot, corrupt) == 2
    assert await refused(hot, old) in (2, 43, 87)
    assert await refused(hot, good + good) == 87
    assert await refused(hot, None) == 87
    assert await refused(hot, b"") == 87
    assert await refused(hot, bytes(good[:40])) in (2, 87)
    assert await refused(hot, batch(b"a", codec=Codec.ZSTD), version=6) == 76
    assert await refused(hot, batch(b"a" * 2_000_000)) == 10
    assert await refused(hot, batch(), topic="__consumer_offsets") == 3
    assert hot.partition().log_end_offset == 0


async def test_internal_topics_are_not_for_clients(hot):
    from hot_path import TOPIC_ID

    hot.add("__consumer_offsets", 0, TOPIC_ID)
    assert await refused(hot, batch(), topic="__consumer_offsets") == 17


async def test_a_compacted_topic_names_the_record_without_a_key(tmp_path):
    hot = HotPath(tmp_path, cleanup_policy=("compact",))
    response = only(await hot.ask(produce_request(batch(b"a", b"b", key=None)), 8))
    assert response.error_code == 87
    assert [each.batch_index for each in response.record_errors] == [0, 1]
    assert response.error_message


async def test_log_append_time_is_told(tmp_path):
    hot = HotPath(tmp_path, message_timestamp_type="LogAppendTime")
    for version in (5, 9):
        response = only(await hot.ask(produce_request(batch(now_ms=5)), version))
        assert response.log_append_time_ms == hot.clock.now_ms()


async def test_no_more_replicas_than_there_are_must_be_in_sync(tmp_path):
    hot = HotPath(tmp_path, min_insync_replicas=2)
    assert only(await hot.ask(produce_request(batch(), acks=-1), 9)).error_code == 0
    assert only(await hot.ask(produce_request(batch(), acks=1), 9)).error_code == 0


async def test_a_repeated_batch_gets_its_first_offset(hot):
    await hot.ask(produce_request(batch()), 9)
    for _ in range(2):
        again = batch(producer_id=4, producer_epoch=0, base_sequence=0)
        response = only(await hot.ask(produce_request(again), 9))
        assert (response.error_code, response.base_offset) == (0, 1)
    gap = batch(producer_id=4, producer_epoch=0, base_sequence=5)
    assert await refused(hot, gap) == 45
    assert hot.partition().log_end_offset == 2


@pytest.mark.parametrize("acks", [1, -1])
async def test_the_answer_waits_for_the_flush_and_is_pipelined(tmp_path, acks):
    hot = HotPath(tmp_path, flush_messages=1)
    answers = [hot.serve(produce_request(batch(), acks=acks), 9) for _ in range(3)]
    assert all(isinstance(each, Deferred) and each.pipelined for each in answers)
    assert hot.partition().high_watermark == 0
    responses = [hot.decoded(ProduceRequest, 9, await settled(each)) for each in answers]
    assert [only(each).base_offset for each in responses] == [0, 1, 2]
    assert hot.partition().log.recovery_point == 3


async def test_a_flush_that_takes_too_long_times_out(tmp_path):
    hot = HotPath(tmp_path, flush_messages=1)
    released = asyncio.Event()

    async def stuck(log, up_to):
        await released.wait()

    hot.flusher.flush = stuck
    answer = hot.serve(produce_request(batch(), timeout_ms=0), 9)
    assert only(hot.decoded(ProduceRequest, 9, await settled(answer))).error_code == 7
    hot.partition().log.set_config(hot.partition().log.config.over({"flush.messages": "100"}))
    released.set()
    while hot.partition().high_watermark == 0:  # noqa: ASYNC110  (nothing tells)
        await asyncio.sleep(0)


async def test_a_repeated_batch_is_flushed_where_the_first_flush_failed(tmp_path):
    hot = HotPath(tmp_path, flush_messages=1)
    real = hot.flusher.flush

    async def failing(log, up_to):
        hot.flusher.flush = real
        raise KafkaStorageError

    hot.flusher.flush = failing
    request = produce_request(batch(producer_id=4, producer_epoch=0, base_sequence=0))
    assert only(await hot.ask(request, 9)).error_code == KafkaStorageError.code
    again = only(await hot.ask(request, 9))
    assert (again.error_code, again.base_offset) == (0, 0)
    assert hot.partition().log.recovery_point == 1


async def test_deleting_the_topic_fails_who_waits(tmp_path):
    hot = HotPath(tmp_path, flush_messages=1)
    answer = hot.serve(produce_request(batch()), 9)
    hot.services.partitions.remove("events", 0)
    assert only(hot.decoded(ProduceRequest, 9, await settled(answer))).error_code == 3
    assert only(await hot.ask(produce_request(batch()), 9)).error_code == 3
    await hot.flusher.settle()


async def test_an_unexpected_failure_is_told_and_logged(hot, caplog, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("a bug")

    monkeypatch.setattr(module, "validate_produced", broken)
    assert await refused(hot, batch()) == -1
    assert "a bug" in caplog.text


names = st.text(max_size=12)
requests = st.builds(
    ProduceRequest,
    transactional_id=st.none() | names,
    acks=st.integers(-1, 1),
    timeout_ms=st.integers(-(1 << 31), (1 << 31) - 1),
    topic_data=st.lists(
        st.builds(
            TopicProduceData,
            name=names,
            partition_data=st.lists(
                st.builds(
                    PartitionProduceData,
                    index=st.integers(-1, 1 << 20),
                    records=st.none() | st.binary(max_size=300),
                ),
                max_size=3,
            ),
        ),
        max_size=3,
    ),
)


@settings(max_examples=100, deadline=None)
@given(request_=requests, version=st.integers(9, 11), lead=st.binary(max_size=5))
def test_both_decoders_agree(request_, version, lead):
    frame = lead + bytes(encode(request_, version))
    generated, _ = decode(ProduceRequest, frame, len(lead), version)
    transactional_id, acks, timeout_ms, topics = decode_produce(frame, len(lead), version)
    assert (transactional_id, acks, timeout_ms) == (
        generated.transactional_id,
        generated.acks,
        generated.timeout_ms,
    )
    assert [
        (name, [(i, frame[a:b] if a >= 0 else None) for i, a, b in parts]) for name, parts in topics
    ] == [
        (
            topic.name,
            [
                (each.index, None if each.records is None else bytes(each.records))
                for each in topic.partition_data
            ],
        )
        for topic in generated.topic_data
    ]


async def test_the_frame_is_not_needed_after_the_call(tmp_path):
    """The network reuses its buffer as soon as the handler has returned."""
    from tidelog.protocol.frame import encode_request

    hot = HotPath(tmp_path, flush_messages=1)
    frame = encode_request(produce_request(batch(b"keep")), 9, 7, "me")
    answer = hot.dispatcher.serve(PEER, memoryview(frame)[4:])
    frame[:] = bytes(len(frame))
    response = hot.decoded(ProduceRequest, 9, await settled(answer))
    assert only(response).error_code == 0
    assert read_records(hot.partition().read(0, 1000).read())[0].value == b"keep"
    assert struct.unpack_from(">q", hot.partition().read(0, 1000).read())[0] == 0


class Slow(ManualClock):
    """A clock by which everything takes long."""

    def monotonic(self) -> float:
        self.advance(20)
        return super().monotonic()


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_a_request_of_many_batches_lets_others_have_their_turn(tmp_path, acks):
    hot = HotPath(tmp_path, partitions=5)
    hot.services.clock = Slow()
    parts = [PartitionProduceData(index=each, records=batch(b"v")) for each in range(5)]
    request = ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="events", partition_data=parts)],
    )
    frame = encode_request(request, 9, 7, "tester")
    answer = hot.dispatcher.serve(PEER, memoryview(frame)[4:])
    assert isinstance(answer, Deferred)
    assert not answer.pipelined, "what comes after it must not overtake it"
    frame[:] = bytes(len(frame))  # the buffer is the network's
    written = [hot.partition(each).log.log_end_offset for each in range(5)]
    assert written == [1, 0, 0, 0, 0]
    ready = await settled(answer)
    assert [hot.partition(each).log.log_end_offset for each in range(5)] == [1] * 5
    if acks:
        told = HotPath.decoded(ProduceRequest, 9, ready)
        found = told.responses[0].partition_responses
        assert [(each.index, each.error_code) for each in found] == [(n, 0) for n in range(5)]


async def test_a_batch_that_fails_later_closes_the_connection_without_acks(tmp_path):
    hot = HotPath(tmp_path, partitions=1)
    hot.services.clock = Slow()
    parts = [PartitionProduceData(index=each, records=batch(b"v")) for each in (0, 1)]
    request = ProduceRequest(
        acks=0, topic_data=[TopicProduceData(name="events", partition_data=parts)]
    )
    with pytest.raises(ProtocolError, match="events-1"):
        await settled(hot.serve(request, 9))
