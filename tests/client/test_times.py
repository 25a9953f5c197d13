"""Times as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from tidelog.client.times import parse_time, time_of
from tidelog.errors import SettingsError

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("10m", NOW - 600_000),
        ("-1.5h", NOW - 5_400_000),
        ("now", NOW),
        ("@1769860800000", 1_769_860_800_000),
        ("2026-01-31T12:00+00:00", 1_769_860_800_000),
        (1_769_860_800_000, 1_769_860_800_000),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), 1_769_860_800_000),
        (timedelta(hours=2), NOW - 7_200_000),
    ],
)
def test_times(given: object, expected: int) -> None:
    assert time_of(given, NOW) == expected  # type: ignore[arg-type]


def test_a_date_without_a_zone_is_local() -> None:
    local = datetime(2026, 1, 31, 12)  # noqa: DTZ001
    assert parse_time("2026-01-31T12:00", NOW) == time_of(local, NOW)
    assert time_of(local, NOW) == local.timestamp() * 1000


@pytest.mark.parametrize("given", ["yesterday", "10 apples", "", True, None, b"10m"])
def test_what_is_no_time_is_told(given: object) -> None:
    with pytest.raises(SettingsError, match="no time"):
        time_of(given, NOW)  # type: ignore[arg-type]
