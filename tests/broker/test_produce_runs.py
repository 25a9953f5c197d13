"""Small Produce requests that come together: answered as if each had come alone."""

import struct

import pytest
from hot_path import PEER, TOPIC_ID, HotPath, batch, produce_request

from tidelog.errors import KafkaStorageError
from tidelog.protocol.frame import decode_response, encode_request
from tidelog.protocol.messages.produce import ProduceRequest, ProduceResponse
from tidelog.records.batch import iterate_batches
from tidelog.testing.faulty_files import Fault, FaultyFiles, on


def frames(*requests, version=9, first=100):
    """The requests back to back, in a buffer as the network's."""
    made = [encode_request(each, version, first + at, "c") for at, each in enumerate(requests)]
    return memoryview(bytearray(b"".join(made)))


def run(hot: HotPath, buffer: memoryview, pos: int = 0):
    return hot.dispatcher.serve_run(PEER, buffer, pos, len(buffer))


def one_by_one(hot: HotPath, buffer: memoryview) -> bytes:
    answers, pos = [], 0
    while pos < len(buffer):
        (size,) = struct.unpack_from(">i", buffer, pos)
        answers.append(bytes(hot.dispatcher.serve(PEER, buffer[pos + 4 : pos + 4 + size])))
        pos += 4 + size
    return b"".join(answers)


def told(answers: bytes, version=9) -> list[tuple[int, ProduceResponse]]:
    found, pos = [], 0
    while pos < len(answers):
        (size,) = struct.unpack_from(">i", answers, pos)
        frame = answers[pos + 4 : pos + 4 + size]
        found.append(decode_response(ProduceRequest.response, frame, version))
        pos += 4 + size
    return found


def begin(hot: HotPath) -> None:
    """The first batch of a segment is never part of a run."""
    for index in range(2):
        hot.serve(produce_request(batch(b"first"), index=index), 9)


def content(hot: HotPath, index: int = 0) -> bytes:
    log = hot.partition(index).log
    region = log.read(0, 1 << 20, up_to=log.high_watermark)
    return region.read()


REQUESTS = [
    produce_request(batch(b"a", b"b"), index=1),
    produce_request(batch(b"c"), index=0, acks=1),
    produce_request(batch(b"d" * 300), index=1, acks=1),
    produce_request(batch(b"e", b"f", b"g"), index=1),
    produce_request(batch(b"h"), index=0),
]


@pytest.mark.parametrize("version", [9, 10, 11])
@pytest.mark.parametrize("requests", [REQUESTS, REQUESTS[2:4]])
def test_a_run_is_as_good_as_its_requests_one_by_one(tmp_path, version, requests):
    together, single = HotPath(tmp_path / "a"), HotPath(tmp_path / "b")
    begin(together)
    begin(single)
    buffer = frames(*requests, version=version)
    wanted = one_by_one(single, frames(*requests, version=version))
    stop, answers = run(together, buffer)
    assert stop == len(buffer)
    assert answers == wanted
    for index in range(2):
        assert content(together, index) == content(single, index)
        assert together.partition(index).high_watermark == single.partition(index).high_watermark
        together.partition(index).log.check()


def test_a_run_stops_before_what_is_unusual(hot):
    begin(hot)
    unusual = produce_request(batch(), batch())
    buffer = frames(*REQUESTS[:2], unusual, *REQUESTS[:2])
    stop, answers = run(hot, buffer)
    assert stop == len(frames(*REQUESTS[:2]))
    assert [correlation_id for correlation_id, _ in told(answers)] == [100, 101]
    assert run(hot, buffer, stop) == (stop, b"")


def test_one_request_is_a_run_too(tmp_path):
    together, single = HotPath(tmp_path / "a"), HotPath(tmp_path / "b")
    begin(together)
    begin(single)
    assert run(together, frames(REQUESTS[0]))[1] == one_by_one(single, frames(REQUESTS[0]))
    assert content(together, 1) == content(single, 1)


def refused(hot: HotPath, *requests) -> bool:
    ends = [hot.partition(index).log.log_end_offset for index in range(2)]
    nothing = run(hot, frames(*requests)) == (0, b"")
    return nothing and ends == [hot.partition(at).log.log_end_offset for at in range(2)]


def test_a_segment_is_begun_the_usual_way(hot):
    assert refused(hot, *REQUESTS)


def test_unknown_topics_and_those_of_the_broker_are_refused_the_usual_way(hot):
    begin(hot)
    hot.add("__consumer_offsets", 0, TOPIC_ID)
    for topic, index in (("nope", 0), ("events", 7), ("__consumer_offsets", 0)):
        other = produce_request(batch(), topic=topic, index=index)
        assert refused(hot, *REQUESTS, other, other)


@pytest.mark.parametrize(
    "config",
    [
        {"cleanup_policy": ("compact",)},
        {"message_timestamp_type": "LogAppendTime"},
        {"message_timestamp_before_max_ms": 1000},
        {"compression_type": "gzip"},
        {"max_message_bytes": 300},
        {"flush_messages": 2},
    ],
)
async def test_topics_with_wishes_are_served_the_usual_way(tmp_path, config):
    hot = HotPath(tmp_path, **config)
    for index in range(2):
        hot.serve(produce_request(batch(b"first"), index=index, acks=1), 9)
    assert refused(hot, *REQUESTS)
    await hot.flusher.settle()


def test_a_time_too_far_ahead_is_refused_the_usual_way(hot):
    begin(hot)
    ahead = produce_request(batch(now_ms=hot.clock.now_ms() + 7_200_000))
    assert refused(hot, *REQUESTS, ahead)


def test_a_partition_that_is_gone_takes_no_run(hot):
    begin(hot)
    hot.partition(1).stop(KafkaStorageError())
    assert refused(hot, *REQUESTS)


async def test_readers_that_wait_are_woken_once(hot):
    begin(hot)
    woken = []
    partition = hot.partition(1)
    wait = hot.services.waiting.wait({partition: 1}, 0, 100, 1000, lambda: woken.append(1))
    run(hot, frames(*REQUESTS))
    await hot.timers.advance(0)
    assert woken == [1]
    assert wait.done


def test_a_disk_that_fails_fails_the_requests_to_its_partition(hot):
    begin(hot)
    files = FaultyFiles(str(hot.directory))
    log = hot.partition(1).log
    segment = log.segments[-1]
    segment._file = files.open(segment.path)
    files.plan = on("write", ".log", Fault.NO_SPACE)
    stop, answers = run(hot, frames(*REQUESTS))
    assert stop == len(frames(*REQUESTS))
    codes = [
        response.responses[0].partition_responses[0].error_code for _, response in told(answers)
    ]
    assert codes == [KafkaStorageError.code, 0, KafkaStorageError.code, KafkaStorageError.code, 0]
    assert log.log_end_offset == 1
    assert len(list(iterate_batches(content(hot, 0)))) == 3


def test_a_fault_of_ours_is_answered_and_logged(hot, caplog, monkeypatch):
    begin(hot)
    monkeypatch.setattr("tidelog.storage.gathering.stamp_batch", lambda *_: 1 / 0)
    _, answers = run(hot, frames(*REQUESTS))
    codes = {each.responses[0].partition_responses[0].error_code for _, each in told(answers)}
    assert codes == {-1}
    assert "ZeroDivisionError" in caplog.text


def test_a_removed_partition_is_not_found_by_its_place(hot):
    begin(hot)
    hot.services.partitions.remove("events", 1)
    buffer = frames(*REQUESTS)
    assert run(hot, buffer) == (0, b"")
