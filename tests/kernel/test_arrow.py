"""Columns say the same as `decode_records`, whatever is left out, and both twins agree on every byte."""

import contextlib
import itertools
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.records import build_batch

EVERYTHING = 63
EVER = (0, 1 << 62, -(1 << 62), 1 << 62)

maybe_bytes = st.none() | st.binary(max_size=200)
rows_of_a_batch = st.lists(
    st.tuples(
        st.integers(0, 2**45),
        maybe_bytes,
        maybe_bytes,
        st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3).map(tuple),
    ),
    max_size=20,
)


def segment(kernel, rows, base_offset=0, base_timestamp=5, append_time=-1):
    data = kernel.encode_records(rows, base_timestamp)
    return (data, 0, len(data), len(rows), base_offset, base_timestamp, append_time)


def numbers(kind, buffer):
    return list(array(kind, bytes(buffer)))


def binary(column, count):
    nulls, validity, offsets, data = column
    places = numbers("i", offsets)
    assert len(places) == count + 1
    assert places[-1] == len(data)
    found = [bytes(data[start:end]) for start, end in itertools.pairwise(places)]
    if validity is None:
        assert not nulls
        return found
    there = [validity[row >> 3] >> (row & 7) & 1 for row in range(count)]
    assert there.count(0) == nulls
    return [each if valid else None for each, valid in zip(found, there, strict=True)]


def rows_in(columns):
    """The columns as `decode_records` would give them."""
    count, offsets, timestamps, _, key, value, headers = columns
    places, total, name_offsets, names, nulls, validity, value_offsets, values = headers
    starts = numbers("i", places)
    assert starts[-1] == total
    pairs = list(
        zip(
            (name.decode() for name in binary((0, None, name_offsets, names), total)),
            binary((nulls, validity, value_offsets, values), total),
            strict=True,
        )
    )
    return list(
        zip(
            numbers("q", offsets),
            numbers("q", timestamps),
            binary(key, count),
            binary(value, count),
            (tuple(pairs[start:end]) for start, end in itertools.pairwise(starts)),
            strict=True,
        )
    )


@given(
    batches=st.lists(st.tuples(rows_of_a_batch, st.sampled_from([-1, 77])), max_size=4),
    first=st.integers(0, 60),
    stop=st.integers(0, 60),
    oldest=st.integers(0, 2**45),
)
def test_columns_say_what_the_records_say(kernel, batches, first, stop, oldest):
    segments, expected, types, base = [], [], [], 3
    for rows, append_time in batches:
        segments.append(segment(kernel, rows, base, append_time=append_time))
        for row in kernel.decode_records(*segments[-1][:6]):
            stamp = row[1] if append_time < 0 else append_time
            if first <= row[0] < stop and oldest <= stamp <= 2**44:
                expected.append((row[0], stamp, *row[2:]))
                types.append(int(append_time >= 0))
        base += len(rows) + 2
    found = kernel.decode_columns(segments, EVERYTHING, first, stop, oldest, 2**44, 1)
    assert rows_in(found) == expected
    assert numbers("i", found[3]) == types
    assert found[0] == len(expected)


@given(rows=rows_of_a_batch, wanted=st.integers(0, EVERYTHING))
def test_what_is_not_wanted_is_left_out_and_the_rest_is_the_same(kernel, rows, wanted):
    given = segment(kernel, rows)
    everything = kernel.decode_columns([given], EVERYTHING, *EVER, 1)
    some = kernel.decode_columns([given], wanted, *EVER, 1)
    for place, (one, other) in enumerate(zip(some[1:], everything[1:], strict=True)):
        assert one == (other if wanted >> place & 1 else None)
    assert some[0] == len(rows)


@given(
    rows=rows_of_a_batch.filter(bool),
    wanted=st.integers(0, EVERYTHING),
    changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4),
    count=st.integers(-1, 30),
)
def test_damaged_records_give_the_same_in_both_twins(kernel, rows, wanted, changes, count):
    import tidelog.kernel

    data, *rest = segment(kernel, rows)
    for place, byte in changes:
        data[place % len(data)] = byte
    rest[2] = count
    results = []
    for twin in (kernel, tidelog.kernel):
        try:
            results.append(twin.decode_columns([(data, *rest)], wanted, *EVER, 1000))
        except InvalidRecord as error:
            results.append(str(error))
    assert results[0] == results[1]


@given(data=st.binary(max_size=300), count=st.integers(-1, 50))
def test_garbage_is_an_invalid_record_and_nothing_else(kernel, data, count):
    with contextlib.suppress(InvalidRecord):
        kernel.decode_columns([(data, 0, len(data), count, 0, 0, -1)], EVERYTHING, *EVER, 1)


def test_many_headers_make_room_for_themselves(kernel):
    headers = tuple((f"ü{number}", b"%d" % number if number % 3 else None) for number in range(500))
    rows = [(number, None, b"v", headers) for number in range(9)]
    found = kernel.decode_columns([segment(kernel, rows)], EVERYTHING, *EVER, 1)
    assert [row[4] for row in rows_in(found)] == [headers] * 9


def test_a_name_that_is_not_text_is_refused(kernel):
    data = bytearray(kernel.encode_records([(5, None, None, (("name", b""),))], 5))
    data[data.index(b"name")] = 0xFF
    with pytest.raises(InvalidRecord, match="not UTF-8"):
        kernel.decode_columns([(data, 0, len(data), 1, 0, 5, -1)], EVERYTHING, *EVER, 1)


def test_times_are_scaled_and_stay_in_64_bits(kernel):
    rows = [(7, None, None, ()), (2**60, None, None, ()), (-1, None, None, ())]
    found = kernel.decode_columns([segment(kernel, rows)], 2, *EVER, 1000)
    most = (2**63 - 1) // 1000 * 1000
    assert numbers("q", found[2]) == [7000, most, -1000]


def test_too_much_at_once_is_refused_before_memory_is_taken(kernel):
    data = bytearray(1 << 20)
    segments = [(data, 0, len(data), 1, 0, 0, -1)] * 2048
    with pytest.raises(InvalidRecord, match="too much to decode at once"):
        kernel.decode_columns(segments, EVERYTHING, *EVER, 1)


@pytest.mark.parametrize("place", [(-1, 5), (3, 2), (0, 99)])
def test_places_outside_of_the_buffer_are_refused(kernel, place):
    with pytest.raises(InvalidRecord, match="outside"):
        kernel.decode_columns([(b"12345678", *place, 0, 0, 0, -1)], EVERYTHING, *EVER, 1)
    with pytest.raises(CorruptMessage, match="outside"):
        kernel.batch_places(b"12345678", *place, True)


def test_batches_are_found_up_to_the_one_that_is_cut_off(kernel):
    first = bytes(build_batch([(9, None, b"a", ()), (8, None, b"b", ())], base_offset=40))
    second = bytes(build_batch([(5, None, b"c", ())], base_offset=50, log_append_time=6))
    third = bytes(build_batch([(5, None, b"d", ())], base_offset=51, producer_id=4))
    data = first + second + third
    end = len(first) + len(second)
    expected = [
        (61, len(first), 2, 40, 41, 9, 9, 0, -1),
        (len(first) + 61, end, 1, 50, 50, 5, 6, 8, -1),
    ]
    for cut in range(1, len(third)):
        assert kernel.batch_places(data[:-cut], 0, len(data) - cut, True) == expected
    assert kernel.batch_places(data, 0, len(data), True)[2][8] == 4
    assert kernel.batch_places(data, end, len(data), True)[0][3] == 51


def test_a_damaged_batch_is_told_with_its_offset(kernel):
    data = bytearray(build_batch([(9, None, b"abc", ())], base_offset=40))
    data[-2] ^= 1
    with pytest.raises(CorruptMessage, match=r"offset 40 is damaged"):
        kernel.batch_places(data, 0, len(data), True)
    assert len(kernel.batch_places(data, 0, len(data), False)) == 1
    data[16] = 1
    with pytest.raises(CorruptMessage, match=r"offset 40 claims magic 1"):
        kernel.batch_places(data, 0, len(data), False)


@given(data=st.binary(min_size=61, max_size=200), check=st.booleans())
def test_garbage_is_a_corrupt_message_and_nothing_else(kernel, data, check):
    with contextlib.suppress(CorruptMessage):
        kernel.batch_places(data, 0, len(data), check)
