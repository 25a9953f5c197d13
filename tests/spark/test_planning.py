"""Limits, splits and losses, without Spark or a broker."""

import pytest

from tidelog.errors import SettingsError, UnknownTopicOrPartition
from tidelog.names import TopicPartition
from tidelog.spark.planning import (
    Range,
    exactly,
    from_json,
    ids_in,
    limited,
    ranges,
    split,
    to_json,
    without_lost,
)

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_offsets_are_kept_as_sparks_own_connector_keeps_them() -> None:
    shown = {"t": {"0": 5, "1": 7}, "u": {"10": 1}}
    assert to_json(from_json(shown)) == shown
    with_ids = to_json(from_json(shown), dict.fromkeys([*shown, "other"], "some id"))
    assert from_json(with_ids) == from_json(shown)
    assert ids_in(with_ids) == dict.fromkeys(shown, "some id")
    assert ids_in(shown) == {}


def test_a_limit_is_shared_by_size() -> None:
    start, end = {A: 0, B: 0, C: 0}, {A: 900, B: 100, C: 0}
    assert limited(start, end, 100) == {A: 90, B: 10, C: 0}
    assert limited(start, end, 5000) == end


def test_a_small_partition_comes_forward_too() -> None:
    assert limited({A: 0, B: 0}, {A: 1_000_000, B: 3}, 10) == {A: 9, B: 1}


def test_a_limited_stream_comes_to_its_end() -> None:
    start, end = {A: 3, B: 0}, {A: 50, B: 1}
    for _ in range(100):
        start = limited(start, end, 4)
    assert start == end


def test_a_split_leaves_nothing_out() -> None:
    whole = ranges({A: 10, B: 0, C: 4}, {A: 1000, B: 10, C: 4})
    cut = split(whole, min_partitions=8)
    assert len(cut) >= 8
    for each in whole:
        parts = [part for part in cut if part.partition == each.partition]
        edges = [part.start for part in parts] + [parts[-1].end]
        assert edges == sorted(edges)
        assert (edges[0], edges[-1]) == (each.start, each.end)
        assert [part.end for part in parts[:-1]] == edges[1:-1]


def test_tasks_have_at_most_so_many_records() -> None:
    cut = split([Range("t", 0, 0, 100)], max_records=30)
    assert max(map(len, cut)) <= 30
    assert sum(map(len, cut)) == 100


def test_only_the_last_piece_goes_on_to_the_end() -> None:
    whole = [Range("t", 0, 0, 100, from_earliest=True, to_latest=True)]
    cut = split(whole, min_partitions=4)
    assert [each.to_latest for each in cut] == [False, False, False, True]
    assert all(each.from_earliest for each in cut)
    assert split([Range("t", 0, 7, 7, to_latest=True)], 3) == [Range("t", 0, 7, 7, to_latest=True)]


def test_what_is_lost_is_told() -> None:
    start, end = {A: 5, B: 0, C: 0}, {A: 10, B: 10, C: 10}
    begin, until, lost = without_lost(start, end, {A: 8, B: 0}, {A: 20, B: 7})
    assert begin == {A: 8, B: 0}
    assert until == {A: 10, B: 7}, "what there is of a shorter log is read"
    assert [line.split()[0] for line in lost] == ["t-0", "t-1", "t-2"]
    assert "offsets 5 to 7 are gone" in lost[0]


def test_a_new_partition_begins_at_zero() -> None:
    begin, _, lost = without_lost({A: 5}, {A: 5, B: 9}, {A: 0, B: 2}, {A: 5, B: 9})
    assert begin == {A: 5, B: 2}
    assert "offsets 0 to 1 are gone" in lost[0]


def test_offsets_are_given_for_just_what_is_read() -> None:
    with pytest.raises(SettingsError, match="startingOffsets lacks t-1"):
        exactly([A], [A, B], "startingOffsets")
    with pytest.raises(UnknownTopicOrPartition, match="names t-1"):
        exactly([A, B], [A], "startingOffsets")
