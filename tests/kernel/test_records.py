import contextlib
import gc
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import InvalidRecord

maybe_bytes = st.none() | st.binary(max_size=200)
rows = st.lists(
    st.tuples(
        st.integers(0, 2**45),
        maybe_bytes,
        maybe_bytes,
        st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3).map(tuple),
    ),
    max_size=20,
)


@given(rows=rows, base_offset=st.integers(0, 2**50), base_timestamp=st.integers(-1, 2**45))
def test_records_come_back(kernel, rows, base_offset, base_timestamp):
    data = kernel.encode_records(rows, base_timestamp)
    found = kernel.decode_records(data, 0, len(data), len(rows), base_offset, base_timestamp)
    assert found == [
        (base_offset + index, timestamp, key, value, headers)
        for index, (timestamp, key, value, headers) in enumerate(rows)
    ]
    keyless = [index for index, row in enumerate(rows) if row[1] is None]
    found = kernel.without_key(data, 0, len(data), len(rows), 2)
    assert found == (len(keyless), keyless[:2])


@given(rows=rows)
def test_the_twins_write_the_same_bytes(kernel, rows):
    import tidelog.kernel

    assert kernel.encode_records(rows, 5) == tidelog.kernel.encode_records(rows, 5)


def test_any_bytes_like_is_taken(kernel):
    row = (1, bytearray(b"key"), memoryview(b"value"), (("h", bytearray(b"x")),))
    data = kernel.encode_records([row], 1)
    around = memoryview(b"<" + data + b">")
    assert kernel.decode_records(around, 1, len(data) + 1, 1, 0, 1) == [
        (0, 1, b"key", b"value", (("h", b"x"),))
    ]


def test_large_records_grow_the_buffer(kernel):
    data = kernel.encode_records([(1, None, b"x" * 100_000, ()), (1, b"y" * 300_000, None, ())], 1)
    (_, _, _, value, _), (_, _, key, _, _) = kernel.decode_records(data, 0, len(data), 2, 0, 1)
    assert (len(value), len(key)) == (100_000, 300_000)


def test_offset_deltas_can_be_given(kernel):
    data = kernel.encode_records([(1, b"a", None, ()), (1, b"b", None, ())], 1, [3, 9])
    assert [row[0] for row in kernel.decode_records(data, 0, len(data), 2, 100, 1)] == [103, 109]


@given(data=st.binary(max_size=200), count=st.integers(-1, 2**31 - 1))
def test_random_bytes_give_invalid_record_only(kernel, data, count):
    for call in (
        lambda: kernel.decode_records(data, 0, len(data), count, 0, 0),
        lambda: kernel.without_key(data, 0, len(data), count, 3),
    ):
        with contextlib.suppress(InvalidRecord):
            call()


@given(
    rows=rows.filter(bool),
    changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4),
)
def test_mutated_records_give_the_same_in_both_twins(kernel, rows, changes):
    import tidelog.kernel

    data = kernel.encode_records(rows, 5)
    for place, byte in changes:
        data[place % len(data)] = byte
    results = []
    for twin in (kernel, tidelog.kernel):
        try:
            results.append(twin.decode_records(data, 0, len(data), len(rows), 0, 5))
        except InvalidRecord as error:
            results.append(str(error))
    assert results[0] == results[1]


@given(rows=rows.filter(bool), cut=st.integers(1))
def test_truncated_records_are_refused(kernel, rows, cut):
    data = kernel.encode_records(rows, 5)
    end = len(data) - 1 - cut % len(data)
    with pytest.raises(InvalidRecord):
        kernel.decode_records(data, 0, end, len(rows), 0, 5)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("0000 00 02 00 00", "attributes and timestamp, then a key of 1 that is not there"),
        ("00 00 00 fe ff ff ff 0f", "a key of 2^31 - 1"),
        ("00 00 00 03", "a key of -2"),
        ("00 00 00 01 01 fe ff ff ff 0f", "2^31 - 1 headers"),
        ("00 00 00 01 01 01", "-1 headers"),
        ("00 00 00 01 01 02 01", "a header without a name"),
        ("00 00 00 01 01 02 02 ff 01", "a header's name that is not UTF-8"),
        ("00 00 00 01 01 00 00", "a byte too many"),
        ("00 feffffffffffffffff01 00 01 01 00", "a timestamp beyond 64 bits"),
        ("00 00 feffffffff01 01 01 00", "an offset delta beyond 32 bits"),
    ],
)
def test_forged_fields_are_refused(kernel, body, why):
    raw = bytes.fromhex(body)
    data = bytes([len(raw) * 2]) + raw
    with pytest.raises(InvalidRecord):
        kernel.decode_records(data, 0, len(data), 1, 0, 0)


def test_positions_outside_are_refused(kernel):
    for pos, end in ((-1, 2), (0, 99), (5, 4)):
        with pytest.raises(InvalidRecord):
            kernel.decode_records(b"abcdef", pos, end, 1, 0, 0)
        with pytest.raises(InvalidRecord):
            kernel.without_key(b"abcdef", pos, end, 1, 3)


def test_a_forged_count_makes_nothing(kernel):
    data = kernel.encode_records([(1, b"a", b"b", ())], 1)
    with pytest.raises(InvalidRecord):
        kernel.decode_records(data, 0, len(data), 2**31 - 1, 0, 1)
    with pytest.raises(InvalidRecord):
        kernel.decode_records(data, 0, len(data), 0, 0, 1)


@given(
    rows=rows,
    base_timestamp=st.integers(-1, 2**45),
    oldest=st.integers(0, 2**45),
    span=st.integers(0, 2**44),
    first=st.integers(0, 20),
    most=st.integers(1, 5),
)
def test_times_outside_of_bounds(kernel, rows, base_timestamp, oldest, span, first, most):
    data = kernel.encode_records(rows, base_timestamp)
    newest = oldest + span
    expected = [
        (index, index, row[0])
        for index, row in enumerate(rows)
        if not oldest <= row[0] <= newest and index >= first
    ]
    found = kernel.times_outside(
        data, 0, len(data), len(rows), base_timestamp, oldest, newest, first, most, True
    )
    assert found == expected[:most]
    refused = [each for each in expected if each[2] != -1] if not first else None
    if refused is not None:
        total, told = kernel.refused_times(
            data, 0, len(data), len(rows), base_timestamp, oldest, newest, most
        )
        assert (total, told) == (len(refused), refused[:most])


@given(
    rows=rows.filter(bool),
    changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4),
)
def test_what_passes_the_walk_can_be_decoded(kernel, rows, changes):
    data = kernel.encode_records(rows, 5)
    for place, byte in changes:
        data[place % len(data)] = byte
    try:
        kernel.times_outside(data, 0, len(data), len(rows), 5, -(2**62), 2**62, 0, 99, True)
    except InvalidRecord:
        return
    found = kernel.decode_records(data, 0, len(data), len(rows), 0, 5)
    assert [row[0] for row in found] == list(range(len(rows)))


def test_offset_deltas_must_count_up_where_they_are_to_be_dense(kernel):
    data = kernel.encode_records([(1, b"a", None, ()), (1, b"b", None, ())], 1, [0, 9])
    assert kernel.times_outside(data, 0, len(data), 2, 1, 5, 9, 0, 9, False) == [
        (0, 0, 1),
        (1, 9, 1),
    ]
    with pytest.raises(InvalidRecord, match="offset delta 9"):
        kernel.times_outside(data, 0, len(data), 2, 1, 5, 9, 0, 9, True)


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple


@given(
    rows=rows,
    first=st.integers(90, 130),
    append_time=st.sampled_from([-1, 0, 77]),
)
def test_messages_are_records_with_their_place(kernel, rows, first, append_time):
    data = kernel.encode_records(rows, 5)
    place = (data, 0, len(data), len(rows), 100, 5)
    found = kernel.decode_messages(Row, "t", 3, *place, first, append_time)
    assert found == [
        ("t", 3, offset, stamp if append_time < 0 else append_time, *rest)
        for offset, stamp, *rest in kernel.decode_records(*place)
        if offset >= first
    ]
    assert all(type(each) is Row for each in found)


def test_messages_live_and_die_as_other_tuples_do(kernel):
    data = kernel.encode_records([(5, b"k", b"v", (("h", None),))] * 1000, 5)
    for _ in range(5):
        found = kernel.decode_messages(Row, "t", 3, data, 0, len(data), 1000, 0, 5, 0, -1)
        gc.collect()
        assert found[999] == Row("t", 3, 999, 5, b"k", b"v", (("h", None),))
        kept = found[7]._replace(key=found)  # tracked again, as it must be
        assert gc.is_tracked(kept)
        del found, kept
    gc.collect()


def test_messages_must_be_tuples(kernel):
    with pytest.raises(TypeError, match="list is not a tuple"):
        kernel.decode_messages(list, "t", 3, b"", 0, 0, 0, 0, 5, 0, -1)
