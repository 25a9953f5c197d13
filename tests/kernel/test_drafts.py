"""Drafts write what `encode_records` writes, keep to their room, and are not torn by threads."""

import gc
import sys
import threading
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.records import encode_headers

HEAD = 61

maybe_bytes = st.none() | st.binary(max_size=200)
rows = st.lists(
    st.tuples(
        st.integers(-(2**59), 2**59),
        maybe_bytes,
        maybe_bytes,
        st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=40,
)


def draft_of(kernel, room=1 << 30, batch="the batch"):
    draft = kernel.drafts.Draft(batch, HEAD, 1000, bytearray(b"rubbish" * 20))
    draft.reserve(room)
    return draft


@given(rows=rows)
def test_the_bytes_are_those_of_encode_records(kernel, rows):
    draft = draft_of(kernel)
    for index, (timestamp, key, value, headers) in enumerate(rows):
        delivery = draft.add(timestamp, key, value, encode_headers(headers))
        assert (delivery.batch, delivery.index) == ("the batch", index)
    times = [row[0] for row in rows]
    assert (draft.count, draft.base_timestamp, draft.max_timestamp) == (
        len(rows),
        times[0],
        max(times),
    )
    stamps = list(array("q", bytes(draft.stamps)))
    changes = [
        [index, time] for index, time in enumerate(times) if not index or time != times[index - 1]
    ]
    assert stamps == [number for change in changes for number in change]
    data = draft.take()
    assert data[HEAD:] == kernel.encode_records(rows, times[0])


def test_a_draft_keeps_to_its_room(kernel):
    draft = draft_of(kernel, room=100)
    assert draft.add(1, b"k" * 10, b"v" * 40, b"\0") is not None  # 74 with what is around it
    assert draft.add(1, None, b"v" * 3, b"\0") is None
    assert draft.add(1, None, b"v" * 2, b"\0") is not None
    draft.reserve(30)
    assert draft.room == 30
    draft.closed = True
    assert draft.add(1, None, b"", b"\0") is None
    assert draft.count == 2


def test_drafts_of_a_topic_by_key_and_without(kernel):
    drafts = kernel.drafts.Drafts(lambda: 5_000_000_000)
    assert drafts.add(b"v", None, None) is None
    assert drafts.add(b"v", b"k", None) is None
    sticky, *by_key = (draft_of(kernel, batch=number) for number in range(5))
    drafts.sticky, drafts.open = sticky, by_key
    assert drafts.add(b"v", None, None).batch == 0
    assert array("q", bytes(sticky.stamps))[1] == 5_000
    for key in (b"", b"a", b"hello", b"21 characters of a key"):
        expected = (kernel.murmur2(key) & 0x7FFFFFFF) % 4
        assert drafts.add(b"v", key, 77).batch == expected + 1
    assert [each.batch for each in drafts.add_many([b"a", b"b", None, b"c"], 1)] == [0]
    drafts.open[(kernel.murmur2(b"a") & 0x7FFFFFFF) % 4] = None
    for refused in (
        ("text", None, None),
        (None, None, None),
        (bytearray(b"x"), None, None),
        (b"v", "key", None),
        (b"v", b"a", None),
        (b"v", None, 1.5),
        (b"v", None, True),
        (b"v", None, -5),
        (b"v", None, 1 << 63),
    ):
        assert drafts.add(*refused) is None


def test_a_delivery_asks_its_batch(kernel):
    class Batch:
        done = True

        def outcome(self, index, timeout):
            return "outcome", index, timeout

        def failure(self, index, timeout):
            return "failure", index, timeout

        def when_done(self, callback):
            callback()

        def awaited(self, index):
            return iter([index])

    delivery = kernel.drafts.Delivery(Batch(), 3)
    assert delivery.done()
    assert delivery.result(7) == ("outcome", 3, 7)
    assert delivery.exception() == ("failure", 3, None)
    assert list(delivery.__await__()) == [3]
    heard = []
    delivery.add_done_callback(heard.append)
    assert heard == [delivery]


def test_threads_do_not_tear_a_draft(kernel):
    if not kernel.COMPILED:
        pytest.skip("interpreted, the caller holds a lock")
    drafts = kernel.drafts.Drafts(lambda: 0)
    draft = drafts.sticky = draft_of(kernel)
    found = [[] for _ in range(4)]

    def work(number):
        # Garbage with finalizers: the collector runs within `add`, and lets other threads in.
        class Loop:
            def __del__(self):
                sum(range(20))

        for turn in range(3_000):
            loop = Loop()
            loop.me = loop
            found[number].append((drafts.add(b"%d:%d" % (number, turn), None, turn).index, turn))

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
    data = draft.take()
    rows = kernel.decode_records(data, HEAD, len(data), 12_000, 0, draft.base_timestamp)
    for number, mine in enumerate(found):
        for index, turn in mine:
            assert rows[index][:4] == (index, turn, None, b"%d:%d" % (number, turn))
