"""Times as people type and read them."""

from datetime import UTC, datetime

from tidelog.client.times import parse_time
from tidelog.errors import SettingsError

__all__ = ["parse_duration", "parse_time", "show_time"]


def parse_duration(text: str) -> int:
    """Milliseconds of a length of time as people type it: `30s`, `10m`."""
    try:
        length_ms = -parse_time(text, 0)
    except SettingsError:
        length_ms = -1
    if length_ms < 0:
        raise SettingsError(f"{text!r} is no length of time; write 500ms, 30s, 10m, 2h or 1d")
    return length_ms


def show_time(timestamp_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds; empty where there is no time."""
    if timestamp_ms < 0:
        return ""
    when = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
