"""Times as people type them: `10m` ago, an ISO date, or milliseconds since 1970."""

import re
from datetime import UTC, datetime

from tidelog.errors import SettingsError

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGO = re.compile(r"-?(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970; a date without a zone is local."""
    text = text.strip().removeprefix("@")
    if text == "now":
        return now_ms
    if ago := _AGO.fullmatch(text):
        return now_ms - int(float(ago[1]) * _UNITS_MS[ago[2]])
    if text.isdigit():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise SettingsError(
            f"{text!r} is no time; write 10m (ago), 2026-01-31T12:00, or milliseconds since 1970"
        ) from None


def show_time(timestamp_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds; empty where there is no time."""
    if timestamp_ms < 0:
        return ""
    when = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
