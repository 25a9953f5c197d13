"""Times as people write them: `10m` ago, an ISO date, milliseconds since 1970, Python's own."""

import re
from datetime import datetime, timedelta

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


def time_of(moment: str | int | float | datetime | timedelta, now_ms: int) -> int:
    """The same for Python's own times: a datetime (without a zone it is local), a timedelta (ago), a number of ms."""
    if isinstance(moment, str):
        return parse_time(moment, now_ms)
    if isinstance(moment, datetime):
        return int(moment.timestamp() * 1000)
    if isinstance(moment, timedelta):
        return now_ms - int(moment.total_seconds() * 1000)
    if isinstance(moment, bool) or not isinstance(moment, int | float):
        raise SettingsError(f"{moment!r} is no time; give a text, a datetime or milliseconds")
    return int(moment)
