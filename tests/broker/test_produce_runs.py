"""Small Produce requests that come together: answered as if each had come alone."""

import struct

import pytest
from hot_path import PEER, TOPIC_ID, HotPath, batch, produce_request

from tidelog.errors import KafkaStorageError, ProtocolError
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
    assert run(hot, buffer, stop) == (stop, None)


def test_one_request_is_a_run_too(tmp_path):
    together, single = HotPath(tmp_path / "a"), HotPath(tmp_path / "b")
    begin(together)
    begin(single)
    assert run(together, frames(REQUESTS[0]))[1] == one_by_one(single, frames(REQUESTS[0]))
    assert content(together, 1) == content(single, 1)


def refused(hot: HotPath, *requests) -> bool:
    ends = [hot.partition(index).log.log_end_offset for index in range(2)]
    nothing = run(hot, frames(*requests)) == (0, None)
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
    _break_disk(hot, 1)
    log = hot.partition(1).log
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
    assert run(hot, buffer) == (0, None)


# ---------------------------------------------------------------------- no acknowledgements


def test_a_run_without_acknowledgements_is_written_and_not_answered(hot):
    begin(hot)
    silent = [produce_request(batch(value), acks=0, index=1) for value in (b"a", b"b", b"c")]
    buffer = frames(*silent)
    assert run(hot, buffer) == (len(buffer), None)
    assert hot.partition(1).high_watermark == 4


def test_requests_with_and_without_acknowledgements_are_no_run(hot):
    begin(hot)
    silent = produce_request(batch(b"a"), acks=0)
    assert refused(hot, silent, REQUESTS[0])
    assert refused(hot, REQUESTS[0], silent)


def test_a_run_without_acknowledgements_that_fails_closes_the_connection(hot):
    begin(hot)
    _break_disk(hot, 1)
    silent = [produce_request(batch(b"a"), acks=0, index=index) for index in (1, 0)]
    with pytest.raises(ProtocolError, match=r"acks=0, and events-1 failed"):
        run(hot, frames(*silent))
    assert [hot.partition(index).log.log_end_offset for index in range(2)] == [2, 1]


# ---------------------------------------------------------------------- idempotent producers


def numbered(*sequences: int, producer_id: int = 7, epoch: int = 0, index: int = 1):
    """A request for each, of two records."""
    return [
        produce_request(
            batch(b"x", b"y", producer_id=producer_id, producer_epoch=epoch, base_sequence=each),
            index=index,
        )
        for each in sequences
    ]


def sent(hot: HotPath, *requests) -> list[tuple[int, int]]:
    """Error and offset of each, over whatever way the dispatcher takes."""
    buffer = frames(*requests)
    stop, answers = run(hot, buffer)
    if stop != len(buffer):
        answers = one_by_one(hot, buffer)
    parts = [each.responses[0].partition_responses[0] for _, each in told(answers)]
    return [(each.error_code, each.base_offset) for each in parts]


def is_run(hot: HotPath, *requests) -> bool:
    buffer = frames(*requests)
    return run(hot, buffer)[0] == len(buffer)


def test_a_run_of_idempotent_producers_is_as_good_as_its_requests_one_by_one(tmp_path):
    requests = [
        *numbered(0, 2),
        *numbered(0, producer_id=8, index=0),
        *numbered(4),
        *numbered(2, 4, producer_id=8, index=0),
        REQUESTS[0],
    ]
    together, single = HotPath(tmp_path / "a"), HotPath(tmp_path / "b")
    begin(together)
    begin(single)
    wanted = one_by_one(single, frames(*requests))
    buffer = frames(*requests)
    assert run(together, buffer) == (len(buffer), wanted)
    for index in range(2):
        ours, theirs = together.partition(index).log, single.partition(index).log
        assert content(together, index) == content(single, index)
        assert ours.producers.to_snapshot() == theirs.producers.to_snapshot()
        ours.check()


def test_a_run_goes_on_where_the_last_one_ended(hot):
    begin(hot)
    assert is_run(hot, *numbered(0, 2))
    assert is_run(hot, *numbered(4, 6, 8, 10, 12, 14))
    assert sent(hot, *numbered(16)) == [(0, 17)]


def test_sequences_go_on_after_the_largest(hot):
    begin(hot)
    assert sent(hot, *numbered(2**31 - 2)) == [(0, 1)]
    assert is_run(hot, *numbered(0, 2))


def test_a_repeated_batch_is_not_written_again(hot):
    begin(hot)
    assert sent(hot, *numbered(0, 2)) == [(0, 1), (0, 3)]
    assert not is_run(hot, *numbered(0, 2))
    assert sent(hot, *numbered(2, 4)) == [(0, 3), (0, 5)]
    assert hot.partition(1).log.log_end_offset == 7


@pytest.mark.parametrize(
    "requests",
    [
        numbered(4, 6),  # one is missing before
        numbered(2, 6),  # one is missing between
        numbered(2, 2),  # one comes twice
        [*numbered(2), *numbered(0, epoch=1)],  # an epoch begins within
    ],
)
def test_what_is_not_in_sequence_goes_the_usual_way(hot, requests):
    begin(hot)
    assert sent(hot, *numbered(0)) == [(0, 1)]
    assert refused(hot, *requests)


def test_an_old_epoch_goes_the_usual_way(hot):
    begin(hot)
    assert sent(hot, *numbered(0, epoch=5)) == [(0, 1)]
    assert refused(hot, *numbered(2, 4, epoch=4))


def test_what_follows_a_failed_run_is_refused_until_that_comes_again(hot):
    begin(hot)
    assert is_run(hot, *numbered(0, 2))
    files = _break_disk(hot, 1)
    failed = sent(hot, *numbered(4, 6))
    assert [code for code, _ in failed] == [KafkaStorageError.code] * 2
    files.plan = None
    # The producer does not know yet that 4 and 6 were refused: 8 must not be out of order, nor be taken.
    assert [code for code, _ in sent(hot, *numbered(8))] == [KafkaStorageError.code]
    assert [code for code, _ in sent(hot, *numbered(4, 6, 8))] == [0, 0, 0]
    assert hot.partition(1).log.log_end_offset == 11
    hot.partition(1).log.check()


def _break_disk(hot: HotPath, index: int) -> FaultyFiles:
    """The next write to the partition finds no room."""
    files = FaultyFiles(str(hot.directory))
    segment = hot.partition(index).log.segments[-1]
    segment._file = files.open(segment.path)
    files.plan = on("write", ".log", Fault.NO_SPACE)
    return files
