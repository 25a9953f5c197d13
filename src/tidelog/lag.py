"""How far behind a reader is, whether that grows, and when retention reaches it: pure, for whoever has the evidence.

`tidelog group describe` asks the brokers for it (`cli/_lag.py`), a broker's own metrics find it at home (`broker/metrics/`).
"""

from typing import NamedTuple

from tidelog.dataclass import dataclass

SHORTEST_MS = 200
"""Two moments that are closer tell nothing."""


class Moment(NamedTuple):
    """A group's place in a partition at a time."""

    at_ms: int
    committed: int
    log_end: int
    waiting_since_ms: int | None
    """The timestamp of the first message that was not read; None if there was none, or if it is gone."""

    @property
    def lag(self) -> int:
        return max(0, self.log_end - self.committed)

    @property
    def lag_ms(self) -> int | None:
        """How long that message had waited."""
        if not self.lag:
            return 0
        if self.waiting_since_ms is None:
            return None
        return max(0, self.at_ms - self.waiting_since_ms)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a group and a partition."""

    now: Moment
    then: Moment | None
    """An earlier moment, None if there is nothing to compare with."""
    later: Moment | None
    """The last commit, if it is fresh; else now is compared."""
    log_start: int
    retention_ms: int = -1
    retained: int | None = None
    """How many messages retention.bytes has room for, going by those that are there; None if it is not set."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows.  None is: not known, or no meaning."""

    lag: int
    lag_seconds: float | None
    lag_per_second: float | None
    """By how many messages a second the lag grows; negative while the group catches up."""
    overtaken_in_seconds: float | None
    """When retention deletes what the group has not read, if all goes on like this; None if it does not."""
    lost: int
    """Messages that retention has deleted before the group has read them."""


def judge(found: Evidence) -> Verdict:
    """Compare then and now."""
    now, then = found.now, found.then
    later = found.later or now
    lag_ms = now.lag_ms
    grows = None
    overtaken: float | None = None
    if then is not None and later.at_ms - then.at_ms >= SHORTEST_MS:
        seconds = (later.at_ms - then.at_ms) / 1000
        grows = (later.lag - then.lag) / seconds
        if now.lag:
            times = [_by_time(found, then, later), _by_size(found, grows)]
            overtaken = min((each for each in times if each is not None), default=None)
            if overtaken is not None and grows < 0 and now.lag / -grows < overtaken:
                overtaken = None  # it has caught up by then
    return Verdict(
        lag=now.lag,
        lag_seconds=None if lag_ms is None else round(lag_ms / 1000, 1),
        lag_per_second=None if grows is None else round(grows, 1),
        overtaken_in_seconds=None if overtaken is None else round(max(0.0, overtaken), 1),
        lost=max(0, found.log_start - now.committed),
    )


def _by_time(found: Evidence, then: Moment, later: Moment) -> float | None:
    """When the age of what is next to read reaches retention.ms, going by how quickly that age grows."""
    age, before, after = found.now.lag_ms, then.lag_ms, later.lag_ms
    if found.retention_ms < 0 or age is None or before is None or after is None:
        return None
    growth = min(1.0, (after - before) / (later.at_ms - then.at_ms))
    if growth <= 0:
        return None
    return (found.retention_ms - age) / growth / 1000


def _by_size(found: Evidence, lag_per_second: float) -> float | None:
    """When there is no room for all that is unread, by retention.bytes."""
    if found.retained is None or lag_per_second <= 0:
        return None
    return (found.retained - found.now.lag) / lag_per_second
