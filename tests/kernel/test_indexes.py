import struct
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st


@given(
    keys=st.lists(st.integers(0, 100)).map(sorted), target=st.integers(-5, 105), wide=st.booleans()
)
def test_it_finds_what_bisection_finds(kernel, keys, target, wide):
    layout = struct.Struct(">qi" if wide else ">ii")
    data = b"".join(layout.pack(key, 7) for key in keys) + bytes(3)
    slot = kernel.find_floor(data, len(keys), layout.size, 8 if wide else 4, target)
    assert slot == bisect_right(keys, target) - 1


@given(keys=st.lists(st.integers(0, 100)).map(sorted), target=st.integers(-5, 105))
def test_the_key_may_lie_behind_another_field(kernel, keys, target):
    data = b"".join(struct.pack(">qi", 7, key) for key in keys)
    slot = kernel.find_floor(data, len(keys), 12, 4, target, 8)
    assert slot == bisect_right(keys, target) - 1


def test_only_the_stated_entries_are_searched(kernel):
    data = struct.pack(">iiii", 1, 0, 2, 0)
    assert kernel.find_floor(data, 1, 8, 4, 100) == 0
    assert kernel.find_floor(data, 0, 8, 4, 100) == -1


@pytest.mark.parametrize(("entries", "entry", "key"), [(3, 8, 4), (-1, 8, 4), (1, 8, 5), (1, 4, 8)])
def test_impossible_layouts_are_refused(kernel, entries, entry, key):
    with pytest.raises(ValueError):
        kernel.find_floor(bytes(16), entries, entry, key, 0)


@pytest.mark.parametrize("key_at", [-1, 5])
def test_keys_outside_of_their_entry_are_refused(kernel, key_at):
    with pytest.raises(ValueError):
        kernel.find_floor(bytes(16), 1, 8, 4, 0, key_at)
