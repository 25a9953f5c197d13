"""What is chosen to be cleaned, and into which segments."""

from dataclasses import replace

import pytest

from tidelog.storage.cleaner_worker import Throttle
from tidelog.storage.compaction import LogFacts, SegmentFacts, dirtiness, group_segments
from tidelog.storage.config import LogConfig

NOW = 1_000_000

LOG = LogFacts(
    log_start_offset=0,
    log_end_offset=400,
    last_stable_offset=400,
    segments=[
        SegmentFacts(0, 1000, first_timestamp=NOW - 500, largest_timestamp=NOW - 400),
        SegmentFacts(100, 1000, first_timestamp=NOW - 400, largest_timestamp=NOW - 300),
        SegmentFacts(200, 1000, first_timestamp=NOW - 300, largest_timestamp=NOW - 200),
        SegmentFacts(300, 1000, first_timestamp=NOW - 200, largest_timestamp=NOW - 100),
    ],
    config=LogConfig(),
)


@pytest.mark.parametrize(
    ("checkpoint", "stable", "config", "dirty", "uncleanable", "clean_bytes", "cleanable_bytes"),
    [
        (None, 400, {}, 0, 300, 0, 3000),
        (100, 400, {}, 100, 300, 1000, 2000),
        (150, 400, {}, 150, 300, 1000, 2000),
        (300, 400, {}, 300, 300, 3000, 0),
        # the last stable offset holds back its whole segment
        (None, 250, {}, 0, 200, 0, 2000),
        (None, 50, {}, 0, 0, 0, 0),
        (150, 150, {}, 150, 150, 1000, 0),
        # young segments are left
        (None, 400, {"min_compaction_lag_ms": 250}, 0, 200, 0, 2000),
        (None, 400, {"min_compaction_lag_ms": 1000}, 0, 0, 0, 0),
        (None, 400, {"min_compaction_lag_ms": 50}, 0, 300, 0, 3000),
    ],
)
def test_what_is_dirty(
    checkpoint, stable, config, dirty, uncleanable, clean_bytes, cleanable_bytes
) -> None:
    log = replace(LOG, last_stable_offset=stable, config=LogConfig(**config))
    found = dirtiness(log, checkpoint, NOW)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (dirty, uncleanable)
    assert (found.clean_bytes, found.cleanable_bytes) == (clean_bytes, cleanable_bytes)
    assert not found.checkpoint_was_wrong


@pytest.mark.parametrize(("checkpoint", "start"), [(50, 100), (401, 0)])
def test_a_checkpoint_outside_the_log_means_to_begin_anew(checkpoint, start) -> None:
    found = dirtiness(replace(LOG, log_start_offset=start), checkpoint, NOW)
    assert found.checkpoint_was_wrong
    assert found.first_dirty_offset == start


def test_the_ratio_decides() -> None:
    found = dirtiness(LOG, 100, NOW)
    assert found.ratio == pytest.approx(2 / 3)
    assert found.due(LogConfig(min_cleanable_dirty_ratio=0.6))
    assert not found.due(LogConfig(min_cleanable_dirty_ratio=0.7))


def test_the_maximum_lag_overrules_the_ratio() -> None:
    config = LogConfig(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=350)
    found = dirtiness(replace(LOG, config=config), 100, NOW)
    assert found.overdue_ms == 50
    assert found.due(config)
    later = dirtiness(replace(LOG, config=config), 200, NOW)
    assert later.overdue_ms == 0
    assert not later.due(config)
    nothing = dirtiness(replace(LOG, config=config, last_stable_offset=0), None, NOW)
    assert nothing.overdue_ms > 0
    assert not nothing.due(config)


def test_a_log_of_one_segment_is_not_dirty() -> None:
    found = dirtiness(replace(LOG, segments=LOG.segments[-1:], log_start_offset=300), None, NOW)
    assert found.cleanable_bytes == 0
    assert found.ratio == 0


def bases(groups: list[list[SegmentFacts]]) -> list[list[int]]:
    return [[each.base_offset for each in group] for group in groups]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, [[0, 10, 20, 30]]),
        ({"segment_bytes": 250}, [[0, 10], [20, 30]]),
        ({"segment_bytes": 99}, [[0], [10], [20], [30]]),
        ({"index_bytes": 24}, [[0, 10], [20, 30]]),  # the time index is the larger one
        ({"index_bytes": 36}, [[0, 10, 20], [30]]),
    ],
)
def test_groups_fit_into_one_segment(limits, expected) -> None:
    segments = [SegmentFacts(base, 100, 8, 12) for base in (0, 10, 20, 30)]
    given = {"segment_bytes": 1 << 30, "index_bytes": 1 << 20} | limits
    assert bases(group_segments(segments, first_uncleanable_offset=40, **given)) == expected


def test_a_group_never_spans_more_offsets_than_an_index_can_tell_apart() -> None:
    far = 1 << 31
    segments = [SegmentFacts(0, 1), SegmentFacts(5, 1), SegmentFacts(far, 1)]
    groups = group_segments(
        segments, segment_bytes=100, index_bytes=100, first_uncleanable_offset=far + 1
    )
    assert bases(groups) == [[0, 5], [far]]


def test_the_throttle_holds_the_average() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    throttle = Throttle(1000, lambda: now[0], sleep)
    for _ in range(10):
        throttle.spend(500)
    assert now[0] == pytest.approx(5.0)
    now[0] += 100  # a long rest is no credit for a long burst
    throttle.spend(1000)
    throttle.spend(1000)
    assert now[0] >= 106.5
