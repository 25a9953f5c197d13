"""Counting by window is exact, however the times lie in a batch."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.audit.counter import TierCounter
from tidelog.audit.encoding import EventWriter, NoAuditEvent, read_event
from tidelog.audit.windows import window_of, windows_of_batch, windows_of_chunk, windows_of_stamps
from tidelog.client.decoding import Chunk
from tidelog.kernel.drafts import Draft
from tidelog.names import TopicPartition
from tidelog.records import Codec
from tidelog.records.batch import parse_header
from tidelog.records.builder import build_batch

times = st.lists(st.integers(0, 5_000), min_size=1, max_size=60)


@given(times, st.sampled_from([Codec.NONE, Codec.GZIP]), st.integers(0, 70))
def test_a_batch_is_counted_as_its_records_would_be(stamps, codec, first) -> None:
    data = build_batch([(each, None, b"v", ()) for each in stamps], codec=codec)
    found = windows_of_batch(data, 0, parse_header(data), first, 1_000)
    assert Counter(found) == Counter(window_of(each, 1_000) for each in stamps[first:])


@given(times)
def test_a_producers_batch_is_counted_by_its_stamps(stamps) -> None:
    draft = Draft(None, 61, 1_000, bytearray())
    draft.reserve(1 << 30)
    for each in stamps:
        draft.add(each, None, b"v", b"\0")
    found = windows_of_stamps(draft.stamps, draft.count, 1_000)
    assert Counter(found) == Counter(window_of(each, 1_000) for each in stamps)


def test_markers_and_aborted_records_do_not_count() -> None:
    whole = build_batch([(1, None, b"v", ())] * 3)
    aborted = build_batch(
        [(1, None, b"v", ())] * 5,
        base_offset=3,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    chunk = Chunk(TopicPartition("t", 0), 1, memoryview(bytes(whole + aborted)), ((7, 3),), 8)
    assert windows_of_chunk(chunk, 1_000) == {0: 2}


def test_totals_that_were_forgotten_go_on_under_another_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidelog.audit.counter._PLACES", 4)
    counter = TierCounter("producer", window_ms=1_000)
    for start in range(10):
        counter.count("t", {start: 1})
    first = {(e.window_start_ms, e.counter): e.count for e in counter.take()}
    counter.published()
    counter.count("t", {0: 1, 9: 1})
    again = {(e.window_start_ms, e.counter): e.count for e in counter.take()}
    totals: Counter[int] = Counter()
    for (start, _), count in {**first, **again}.items():
        totals[start] += count
    assert totals == {start: 2 if start in (0, 9) else 1 for start in range(10)}


def test_an_event_survives_its_encoding_and_garbage_is_refused() -> None:
    counter = TierCounter("live", window_ms=1_000)
    counter.count("orders", {5_000: 37})
    [event] = counter.take()
    data = EventWriter().write(event)
    assert read_event(data) == event
    for garbage in (None, b"", b"\0", b"{}", data[:-1], b"\0\0\0\0\1"):
        with pytest.raises(NoAuditEvent):
            read_event(garbage)
