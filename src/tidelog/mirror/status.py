"""What a mirror knows of itself: for the terminal, for scripts and for metrics."""

import time
from collections import deque
from dataclasses import field
from typing import Any

from tidelog.dataclass import dataclass
from tidelog.names import TopicPartition

_ERRORS = 20
_RATE_S = 5.0


@dataclass(slots=True)
class PartitionStatus:
    """One partition that is being mirrored."""

    position: int = -1
    """The source offset up to which everything was passed on and acknowledged."""
    high_watermark: int = -1
    last_timestamp: int = -1
    same_offsets: bool = True
    """Whether every record so far has the offset at the target that it has at the source."""

    @property
    def lag(self) -> int:
        """Offsets that are still to be passed on."""
        return max(0, self.high_watermark - self.position) if self.position >= 0 else 0

    def lag_s(self, now_s: float) -> float:
        """How old the last record is that was passed on, if there are more; 0 if there are none."""
        if not self.lag or self.last_timestamp < 0:
            return 0.0
        return max(0.0, now_s - self.last_timestamp / 1000)


@dataclass(slots=True)
class LaneStatus:
    """One source."""

    source: str
    records: int = 0
    bytes: int = 0
    batches: int = 0
    rebuilt: int = 0
    """Batches that had to be built anew."""
    commits: int = 0
    error_count: int = 0
    errors: deque[str] = field(default_factory=lambda: deque(maxlen=_ERRORS))
    down: dict[str, str] = field(default_factory=dict)
    """By side, `source` or `target`, why it cannot be reached at the moment."""
    partitions: dict[TopicPartition, PartitionStatus] = field(default_factory=dict)
    translated: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    """By group what was committed for it at the target."""
    _marks: deque[tuple[float, int, int]] = field(default_factory=deque)

    def failed(self, error: str) -> None:
        self.error_count += 1
        self.errors.append(error)

    def passed(self, records: int, size: int, rebuilt: bool) -> None:
        self.records += records
        self.bytes += size
        self.batches += 1
        self.rebuilt += rebuilt

    def rates(self) -> tuple[float, float]:
        """Records and bytes a second, of the last seconds."""
        now = time.monotonic()
        self._marks.append((now, self.records, self.bytes))
        while len(self._marks) > 2 and now - self._marks[0][0] > _RATE_S:
            self._marks.popleft()
        began, records, size = self._marks[0]
        took = max(now - began, 1e-3)
        return (self.records - records) / took, (self.bytes - size) / took

    def metrics(self) -> dict[str, Any]:
        """Everything as plain values."""
        now = time.time()
        per_second, bytes_per_second = self.rates()
        return {
            "source": self.source,
            "records": self.records,
            "bytes": self.bytes,
            "batches": self.batches,
            "rebuilt_batches": self.rebuilt,
            "commits": self.commits,
            "errors": self.error_count,
            "last_error": self.errors[-1] if self.errors else None,
            "down": dict(self.down),
            "records_per_second": round(per_second, 1),
            "bytes_per_second": round(bytes_per_second, 1),
            "partitions": {
                f"{tp.topic}-{tp.partition}": {
                    "position": each.position,
                    "lag": each.lag,
                    "lag_seconds": round(each.lag_s(now), 3),
                    "same_offsets": each.same_offsets,
                }
                for tp, each in sorted(self.partitions.items())
            },
        }

    def line(self) -> str:
        """One line for a terminal."""
        now = time.time()
        per_second, bytes_per_second = self.rates()
        lags = [(each.lag_s(now), each.lag, tp) for tp, each in self.partitions.items()]
        lag_s, lag, worst = max(lags, default=(0.0, 0, None))
        text = (
            f"{self.source}: {per_second:,.0f} records/s  {bytes_per_second / 1e6:.1f} MB/s  "
            f"{self.records:,} in all  {len(self.partitions)} partitions"
        )
        if worst is not None and lag:
            text += f"  lag {lag_s:.1f} s ({lag:,} at {worst.topic}-{worst.partition})"
        if self.error_count:
            text += f"  {self.error_count} errors"
        for side, reason in self.down.items():
            text += f"  [{side} is down: {reason}]"
        return text
