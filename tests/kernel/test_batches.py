import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.records import BatchHeader, build_batch, parse_header
from tidelog.records.builder import assemble

ROWS = [(1000, b"k", b"v", ()), (990, None, b"w" * 200, (("h", None),))]


def a_batch(**changes) -> bytearray:
    """A good batch whose header is then changed, with a CRC that fits the change."""
    batch = build_batch(ROWS, base_offset=7, producer_id=9, producer_epoch=1, base_sequence=3)
    return assemble(parse_header(batch)._replace(**changes), batch[61:])


def test_the_fields_come_in_the_order_of_the_header(kernel):
    batch = a_batch()
    fields = kernel.check_batch(batch, 0, len(batch))
    assert fields == parse_header(batch)
    assert BatchHeader(*fields).producer_id == 9
    padded = b"abc" + batch + b"more"
    assert kernel.check_batch(memoryview(padded), 3, len(padded)) == fields


@pytest.mark.parametrize("size", [0, 1, 11, 12, 60, 61, 100])
def test_a_batch_that_is_cut_off_is_corrupt(kernel, size):
    batch = a_batch()
    with pytest.raises(CorruptMessage):
        kernel.check_batch(batch[:size], 0, size)


@pytest.mark.parametrize(("pos", "end"), [(-1, 100), (0, 10_000), (200, 100), (1 << 40, 1 << 41)])
def test_ranges_outside_of_the_buffer_are_refused(kernel, pos, end):
    batch = a_batch()
    with pytest.raises(CorruptMessage):
        kernel.check_batch(batch, pos, end)
    with pytest.raises(CorruptMessage):
        kernel.scan_batches(batch, pos, end)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 10_000, 2**31 - 1])
def test_forged_lengths_are_corrupt(kernel, length):
    batch = a_batch()
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptMessage):
        kernel.check_batch(batch, 0, len(batch))


@pytest.mark.parametrize(
    ("magic", "error"), [(0, InvalidRecord), (1, InvalidRecord), (3, CorruptMessage)]
)
def test_other_formats_are_refused(kernel, magic, error):
    batch = a_batch()
    batch[16] = magic
    with pytest.raises(error, match=r"format|magic"):
        kernel.check_batch(batch, 0, len(batch))


@pytest.mark.parametrize("changes", [{"count": -1}, {"last_offset_delta": -1}, {"count": 3}])
def test_counts_must_make_sense(kernel, changes):
    batch = a_batch(**changes)
    with pytest.raises(InvalidRecord):
        kernel.check_batch(batch, 0, len(batch))


def test_more_records_than_bytes_are_refused(kernel):
    batch = a_batch(count=2**31 - 1, last_offset_delta=2**31 - 2)
    with pytest.raises(InvalidRecord, match="cannot fit"):
        kernel.check_batch(batch, 0, len(batch))


def test_batches_that_compaction_left_are_good(kernel):
    gaps = build_batch(ROWS, offset_deltas=[0, 5], last_offset_delta=9)
    empty = build_batch([], last_offset_delta=9, producer_id=1, producer_epoch=0, base_sequence=0)
    for batch in (gaps, empty):
        assert kernel.check_batch(batch, 0, len(batch)) == parse_header(batch)


@given(place=st.integers(17, 300), bit=st.integers(0, 7))
def test_every_flipped_bit_under_the_crc_is_seen(kernel, place, bit):
    batch = a_batch()
    batch[17 + (place - 17) % (len(batch) - 17)] ^= 1 << bit
    with pytest.raises(CorruptMessage):
        kernel.check_batch(batch, 0, len(batch))


def test_stamping_changes_two_fields_and_no_crc(kernel):
    buffer = bytearray(b"xx" + a_batch() + b"yy")
    before = parse_header(buffer, 2)
    kernel.stamp_batch(memoryview(buffer), 2, 1 << 40, 6)
    assert parse_header(buffer, 2) == before._replace(base_offset=1 << 40, leader_epoch=6)
    assert kernel.check_batch(buffer, 2, len(buffer))
    with pytest.raises(CorruptMessage):
        kernel.stamp_batch(buffer, len(buffer) - 60, 0, 0)
    with pytest.raises(CorruptMessage):
        kernel.stamp_batch(buffer, -1, 0, 0)


def test_scanning_lists_whole_batches(kernel):
    first, second = a_batch(), build_batch(ROWS, base_offset=9)
    log = bytes(first + second)
    places, stop, reason = kernel.scan_batches(log, 0, len(log))
    assert (stop, reason) == (len(log), "")
    assert places == [
        (0, len(first), 7, 8, 1000),
        (len(first), len(second), 9, 10, 1000),
    ]
    assert kernel.scan_batches(b"", 0, 0) == ([], 0, "")


@given(cut=st.integers(1, 250))
def test_scanning_stops_at_a_torn_tail(kernel, cut):
    first, second = a_batch(), a_batch()
    log = (first + second)[:-cut]
    places, stop, reason = kernel.scan_batches(log, 0, len(log))
    assert len(places) == 1
    assert stop == len(first)
    assert reason == ("torn" if cut < len(second) else "")


@pytest.mark.parametrize("tail", [bytes(100), b"\xff" * 100, bytes(8) + b"\x7f" * 92])
def test_scanning_stops_at_garbage(kernel, tail):
    log = bytes(a_batch()) + tail
    places, stop, reason = kernel.scan_batches(log, 0, len(log))
    assert len(places) == 1
    assert stop == places[0][1]
    assert reason.startswith("corrupt: ")


@given(data=st.binary(max_size=300))
def test_random_bytes_never_do_more_than_raise(kernel, data):
    with pytest.raises((CorruptMessage, InvalidRecord)):
        kernel.check_batch(data, 0, len(data))
    places, stop, reason = kernel.scan_batches(data, 0, len(data))
    assert places == []
    assert stop == 0
    assert bool(reason) == bool(data)


def a_log(*counts: int, first: int = 100) -> tuple[bytes, list[tuple[int, int]]]:
    """Batches of so many records, back to back; and where each begins, and with which offset."""
    data, places, offset = b"", [], first
    for count in counts:
        places.append((len(data), offset))
        rows = [(1000, None, b"v" * count, ())] * count
        data += bytes(build_batch(rows, base_offset=offset))
        offset += count
    return data, [*places, (len(data), offset)]


FAR = 1 << 62


@given(st.lists(st.integers(1, 5), max_size=8), st.integers(90, 140), st.integers(0, 10))
def test_skipping_stops_at_the_batch_that_holds_the_offset(kernel, counts, offset, before):
    data, places = a_log(*counts)
    buffer = bytes(before) + data
    stop, after = kernel.skip_batches(buffer, before, 100, offset, len(buffer))
    passed = [next_offset for _, next_offset in places[1:] if next_offset <= offset]
    assert after == (passed[-1] if passed else -1)
    assert stop - before == places[len(passed)][0]


@given(st.lists(st.integers(1, 5), max_size=8), st.integers(0, 700))
def test_skipping_stops_at_the_batch_that_does_not_fit(kernel, counts, limit):
    data, places = a_log(*counts)
    stop, after = kernel.skip_batches(data, 0, 100, FAR, limit)
    fitting = [place for place in places[1:] if place[0] <= limit]
    assert (stop, after) == (fitting[-1] if fitting else (0, -1))


def test_the_last_batch_may_reach_beyond_the_buffer(kernel):
    data, places = a_log(1, 2, 3)
    cut = data[: places[2][0] + 27]
    assert kernel.skip_batches(cut, 0, 100, FAR, len(data)) == places[3]
    assert kernel.skip_batches(cut[:-1], 0, 100, FAR, len(data)) == places[2]


@pytest.mark.parametrize("changes", [{"last_offset_delta": -1}, {"base_offset": 3}, {"length": 48}])
def test_skipping_stops_at_what_is_no_batch_of_the_log(kernel, changes):
    wrong = bytearray(build_batch(ROWS, base_offset=200))
    header = parse_header(wrong)._replace(**changes)
    struct.pack_into(">qi", wrong, 0, header.base_offset, header.length)
    struct.pack_into(">i", wrong, 23, header.last_offset_delta)
    data, places = a_log(1, 2)
    assert kernel.skip_batches(data + wrong, 0, 100, FAR, FAR) == places[2]


@given(st.binary(max_size=200), st.integers(-5, 250))
def test_skipping_over_noise_ends(kernel, noise, pos):
    stop, _ = kernel.skip_batches(noise, pos, 0, FAR, len(noise))
    assert pos <= stop <= max(pos, len(noise))
