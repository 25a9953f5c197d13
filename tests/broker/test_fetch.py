"""Reading, waiting, and the layout of the answer in every version."""

import asyncio

import pytest
from hot_path import (
    TOPIC_ID,
    HotPath,
    batch,
    fetch_request,
    joined,
    produce_request,
    settled,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.broker.fetch_answer import Result, lay_out
from tidelog.kernel import decode_fetch
from tidelog.network.answer import Deferred
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.frame import encode_response
from tidelog.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from tidelog.records.batch import iterate_batches, read_records

VERSIONS = range(4, 18)


def values(partition) -> list[bytes]:
    return [
        record.value
        for position, _ in iterate_batches(partition.records or b"")
        for record in read_records(partition.records, position)
    ]


def parts(response):
    return [each for topic in response.responses for each in topic.partitions]


async def fill(hot, *each: bytes, index: int = 0) -> None:
    for value in each:
        await hot.ask(produce_request(batch(value), index=index), 9)


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_was_produced_is_read_in_every_version(hot, version):
    await fill(hot, b"a", b"b", b"c")
    response = await hot.ask(fetch_request(1, version=version), version)
    (partition,) = parts(response)
    assert values(partition) == [b"b", b"c"]
    assert (partition.error_code, partition.high_watermark) == (0, 3)
    assert partition.last_stable_offset == 3
    assert partition.aborted_transactions is None
    if version >= 5:
        assert partition.log_start_offset == 0
    assert response.responses[0].topic == ("events" if version < 13 else "")


async def test_a_batch_is_returned_whole(hot):
    await hot.ask(produce_request(batch(b"a", b"b", b"c")), 9)
    (partition,) = parts(await hot.ask(fetch_request(2), 12))
    assert values(partition) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("offset", "epoch", "code"), [(4, -1, 1), (-1, -1, 1), (0, 2, 74), (0, 4, 75), (0, 3, 0)]
)
async def test_offsets_and_epochs_are_checked(hot, offset, epoch, code):
    await fill(hot, b"a", b"b", b"c")
    request = fetch_request(offset, current_leader_epoch=epoch, max_wait_ms=60_000, min_bytes=1000)
    if not code:
        request.min_bytes = 1
    (partition,) = parts(await hot.ask(request, 12))
    assert partition.error_code == code
    if code:
        assert partition.high_watermark == -1


async def test_the_end_of_the_log_is_empty_and_no_error(hot):
    await fill(hot, b"a")
    (partition,) = parts(await hot.ask(fetch_request(1), 12))
    assert (partition.error_code, bytes(partition.records)) == (0, b"")


@pytest.mark.parametrize(("version", "code"), [(12, 3), (13, 100)])
async def test_unknown_topics(hot, version, code):
    request = fetch_request(0, version=version, topic="nowhere")
    if version >= 13:
        request.topics[0].topic_id = __import__("uuid").UUID(int=5)
    (partition,) = parts(await hot.ask(request, version))
    assert partition.error_code == code


async def test_a_first_batch_larger_than_the_limits_is_returned_alone(hot):
    await fill(hot, b"x" * 5000, b"y")
    await fill(hot, b"z", index=1)
    request = fetch_request(0, 0, max_bytes=10, partition_max_bytes=10)
    first, second = parts(await hot.ask(request, 12))
    assert values(first) == [b"x" * 5000]
    assert bytes(second.records) == b""


async def test_max_bytes_holds_over_all_partitions(hot):
    for index in (0, 1):
        await fill(hot, *[b"x" * 1000] * 10, index=index)
    first, second = parts(await hot.ask(fetch_request(0, 0, max_bytes=12_000), 12))
    assert len(values(first)) == 10
    assert len(values(second)) == 1


async def test_zstd_topics_are_refused_to_old_clients(tmp_path):
    hot = HotPath(tmp_path, compression_type="zstd")
    assert parts(await hot.ask(fetch_request(0, version=9), 9))[0].error_code == 76
    assert parts(await hot.ask(fetch_request(0, version=10), 10))[0].error_code == 0


# ---------------------------------------------------------------------- waiting


async def test_a_fetch_waits_for_data(hot):
    answer = hot.serve(fetch_request(0, 0, max_wait_ms=500), 12)
    assert isinstance(answer, Deferred)
    assert not answer.pipelined
    await hot.timers.advance(400)
    assert not answer.done
    await fill(hot, b"new", index=1)
    response = hot.decoded(FetchRequest, 12, await settled(answer))
    assert [values(each) for each in parts(response)] == [[], [b"new"]]
    assert len(hot.services.waiting) == 0
    assert not hot.partition(0).watchers


async def test_a_fetch_that_gets_nothing_is_answered_when_its_time_is_over(hot):
    answer = hot.serve(fetch_request(0, max_wait_ms=500), 12)
    await hot.timers.advance(499)
    assert not answer.done
    await hot.timers.advance(10)
    response = hot.decoded(FetchRequest, 12, await settled(answer))
    assert values(parts(response)[0]) == []
    assert hot.timers.armed == 0


async def test_a_fetch_waits_for_its_bytes(hot):
    size = len(batch(b"x" * 100))
    await fill(hot, b"x" * 100)
    answer = hot.serve(fetch_request(0, max_wait_ms=500, min_bytes=3 * size - 30), 12)
    await fill(hot, b"x" * 100)
    await asyncio.sleep(0)
    assert not answer.done
    await fill(hot, b"x" * 100)
    response = hot.decoded(FetchRequest, 12, await settled(answer))
    assert len(values(parts(response)[0])) == 3


async def test_an_append_wakes_only_its_own_readers(hot):
    here = hot.serve(fetch_request(0, max_wait_ms=500), 12)
    there = hot.serve(fetch_request(None, 0, max_wait_ms=500), 12)
    await fill(hot, b"x")
    await settled(here)
    assert not there.done
    hot.services.waiting.close()
    await settled(there)


async def test_deleting_a_topic_wakes_its_readers_with_an_error(hot):
    answer = hot.serve(fetch_request(0, max_wait_ms=500), 12)
    hot.services.partitions.remove("events", 0)
    response = hot.decoded(FetchRequest, 12, await settled(answer))
    assert parts(response)[0].error_code == 3


async def test_max_wait_0_is_answered_at_once(hot):
    assert isinstance(hot.serve(fetch_request(0, max_wait_ms=0), 12), list)


async def test_reading_committed_waits_for_the_end_of_the_transaction(hot):
    transactional = batch(
        b"t", producer_id=9, producer_epoch=0, base_sequence=0, transactional=True
    )
    await hot.ask(produce_request(transactional, transactional_id="mine"), 9)
    await fill(hot, b"behind")
    assert values(parts(await hot.ask(fetch_request(0), 12))[0]) == [b"t", b"behind"]
    answer = hot.serve(fetch_request(0, isolation_level=1, max_wait_ms=500), 12)
    await fill(hot, b"more")
    await asyncio.sleep(0)
    assert not answer.done, "an open transaction holds back what follows it"
    await hot.timers.advance(600)
    (partition,) = parts(hot.decoded(FetchRequest, 12, await settled(answer)))
    assert (partition.last_stable_offset, partition.high_watermark) == (0, 3)
    assert partition.aborted_transactions == []


async def test_data_that_is_not_yet_flushed_is_not_readable(tmp_path):
    hot = HotPath(tmp_path, flush_messages=1)
    waiting = hot.serve(fetch_request(0, max_wait_ms=500), 12)
    produced = hot.serve(produce_request(batch(b"x")), 9)
    assert values(parts(await hot.ask(fetch_request(0), 12))[0]) == []
    await settled(produced)
    response = hot.decoded(FetchRequest, 12, await settled(waiting))
    assert values(parts(response)[0]) == [b"x"]


# ---------------------------------------------------------------------- layout


class Bytes:
    """A region that is not on a disk."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position, self.length = data, 0, len(data)
        self.file = self

    def pread(self, length: int, position: int) -> bytes:
        return self.data[position : position + length]


@settings(max_examples=200, deadline=None)
@given(data=st.data(), version=st.sampled_from(VERSIONS))
def test_the_hand_laid_answer_is_that_of_the_codec(data, version):
    whole = st.integers(-1, (1 << 62))
    results, expected = [], []
    for number in range(data.draw(st.integers(0, 3))):
        topic = f"topic{number}" if version < 13 else bytes([number]) * 16
        partitions = []
        for index in range(data.draw(st.integers(1, 3))):
            result = Result(topic, index, data.draw(st.sampled_from([0, 1, 6, 74])))
            result.high_watermark = data.draw(whole)
            result.last_stable_offset = data.draw(whole)
            result.log_start_offset = data.draw(whole)
            result.aborted = data.draw(st.none() | st.lists(st.tuples(whole, whole), max_size=130))
            records = data.draw(st.binary(max_size=300))
            result.region = Bytes(records) if records else None
            leader = data.draw(st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)))
            result.leader = leader
            results.append(result)
            aborted = result.aborted
            partitions.append(
                PartitionData(
                    partition_index=index,
                    error_code=result.error_code,
                    high_watermark=result.high_watermark,
                    last_stable_offset=result.last_stable_offset,
                    log_start_offset=result.log_start_offset,
                    aborted_transactions=None
                    if aborted is None
                    else [AbortedTransaction(producer_id=p, first_offset=f) for p, f in aborted],
                    current_leader=LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
                    if leader
                    else LeaderIdAndEpoch(),
                    records=records,
                )
            )
        named = (
            {"topic": topic} if version < 13 else {"topic_id": __import__("uuid").UUID(bytes=topic)}
        )
        expected.append(FetchableTopicResponse(partitions=partitions, **named))
    endpoints = data.draw(
        st.lists(
            st.builds(
                NodeEndpoint,
                node_id=st.integers(0, 9),
                host=st.text(max_size=5),
                port=st.integers(0, 65535),
                rack=st.none() | st.text(max_size=3),
            ),
            max_size=2,
        )
    )
    error, session = data.draw(st.sampled_from([0, 71])), data.draw(st.integers(0, 1 << 30))
    response = FetchResponse(
        error_code=error, session_id=session, responses=expected, node_endpoints=endpoints
    )
    assert joined(lay_out(version, 5, error, session, results, endpoints)) == bytes(
        encode_response(response, version, 5)
    )


small = st.integers(0, 1 << 20)


@settings(max_examples=100, deadline=None)
@given(version=st.integers(12, 17), data=st.data())
def test_both_decoders_agree(version, data):
    named = {"topic": st.text(max_size=9)} if version < 13 else {"topic_id": st.uuids()}
    partition = st.builds(
        FetchPartition,
        partition=small,
        current_leader_epoch=small,
        fetch_offset=small,
        last_fetched_epoch=small,
        log_start_offset=small,
        partition_max_bytes=small,
    )
    topic = st.builds(FetchTopic, partitions=st.lists(partition, max_size=3), **named)
    forgotten = st.builds(ForgottenTopic, partitions=st.lists(small, max_size=3), **named)
    request = data.draw(
        st.builds(
            FetchRequest,
            max_wait_ms=small,
            min_bytes=small,
            max_bytes=small,
            isolation_level=st.integers(0, 1),
            session_id=small,
            session_epoch=small,
            topics=st.lists(topic, max_size=3),
            forgotten_topics_data=st.lists(forgotten, max_size=2),
            rack_id=st.text(max_size=4),
            cluster_id=st.none() | st.text(max_size=4),
        )
    )
    frame = bytes(encode(request, version))
    generated, _ = decode(FetchRequest, frame, 0, version)
    fast = decode_fetch(frame, 0, version)

    def name(each):
        return each.topic if version < 13 else each.topic_id.bytes

    assert fast[2:8] == (
        generated.max_wait_ms,
        generated.min_bytes,
        generated.max_bytes,
        generated.isolation_level,
        generated.session_id,
        generated.session_epoch,
    )
    assert [(t, [p[:6] for p in each]) for t, each in fast[8]] == [
        (
            name(each),
            [
                (
                    p.partition,
                    p.current_leader_epoch,
                    p.fetch_offset,
                    p.last_fetched_epoch,
                    p.log_start_offset,
                    p.partition_max_bytes,
                )
                for p in each.partitions
            ],
        )
        for each in generated.topics
    ]
    assert fast[9] == [(name(each), each.partitions) for each in generated.forgotten_topics_data]
    assert fast[10:] == (generated.rack_id, generated.cluster_id)


def test_the_topic_id_of_the_rig_is_not_zero():
    assert TOPIC_ID.int
