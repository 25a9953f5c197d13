"""The offset map against a dict, within its bound."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.storage.keymap import ENTRY_BYTES, KeyMap

KEYS = st.lists(st.binary(max_size=8), max_size=200)


@given(KEYS)
def test_it_answers_as_a_dict_does(keys: list[bytes]) -> None:
    keymap = KeyMap(1 << 20, expected=len(keys))
    model: dict[bytes, int] = {}
    for offset, key in enumerate(keys):
        assert keymap.put(key, offset)
        model[key] = offset
    assert {key: keymap.get(key) for key in keys} == model
    assert keymap.size == len(model)
    keymap.close()


@given(KEYS, st.integers(1, 20))
def test_a_full_map_takes_known_keys_only(keys: list[bytes], slots: int) -> None:
    keymap = KeyMap(slots * ENTRY_BYTES, expected=1000)
    model: dict[bytes, int] = {}
    for offset, key in enumerate(keys):
        taken = keymap.put(key, offset)
        assert taken == (key in model or len(model) < keymap.capacity)
        if taken:
            model[key] = offset
    assert {key: keymap.get(key) for key in keys} == {key: model.get(key, -1) for key in keys}
    assert keymap.full == (len(model) >= keymap.capacity)
    keymap.close()


def test_it_is_no_larger_than_needed_and_never_above_its_bound() -> None:
    assert KeyMap(1 << 30, expected=10)._words * 8 < 1024
    assert KeyMap(10_000, expected=1 << 40)._words * 8 <= 10_000


def test_it_always_holds_at_least_one_key() -> None:
    keymap = KeyMap(0, expected=0)
    assert keymap.put(b"a", 0)
    assert keymap.get(b"a") == 0


def test_the_load_factor_is_kept() -> None:
    keymap = KeyMap(1000 * ENTRY_BYTES, load_factor=0.5, expected=1 << 20)
    taken = sum(keymap.put(b"%d" % each, each) for each in range(1000))
    assert taken == keymap.capacity == keymap.size
    assert 0.49 < keymap.utilization <= 0.5
