"""What somebody has used lately, in several small windows, and how long to wait until it is within a limit.

Small windows find a violation soon, and end it soon: with large ones a burst would be followed by a long silence.  The
figures are those of Kafka's `Rate` and `ClientQuotaManager`.
"""

from collections import deque


class Usage:
    """Amounts over the last `count` windows of `window_s` seconds each; the newest is not full yet."""

    __slots__ = ("_count", "_total", "_window_s", "_windows", "used_at")

    def __init__(self, window_s: float = 1.0, count: int = 11) -> None:
        self._window_s = window_s
        self._count = count
        self._windows: deque[list[float]] = deque()
        """Start and amount of each window in which anything was used, oldest first."""
        self._total = 0.0
        self.used_at = 0.0
        """When something was last recorded."""

    def record(self, amount: float, now: float) -> None:
        """Count `amount`; a negative one takes back what turned out not to be used."""
        self._forget_old(now)
        windows = self._windows
        if not windows or now >= windows[-1][0] + self._window_s:
            windows.append([now, 0.0])
        windows[-1][1] += amount
        self._total += amount
        self.used_at = now

    def rate(self, now: float) -> float:
        """Per second, over the time that the windows cover."""
        self._forget_old(now)
        return self._total / self._span(now)

    def delay(self, limit: float, now: float) -> float:
        """Seconds to wait until the rate is back at `limit`; 0 if it is not above it.

        Invariant: rate * span / (span + delay) == limit.
        """
        self._forget_old(now)
        span = self._span(now)
        if self._total <= limit * span:
            return 0.0
        if limit <= 0:
            return self._window_s * self._count
        # Never longer than the windows remember: after that, what is waited for is forgotten anyhow.
        return min(self._total / limit - span, self._window_s * self._count)

    def _span(self, now: float) -> float:
        """At the beginning all windows but one count as if they had passed: else a first small burst looks like a flood."""
        least = (self._count - 1) * self._window_s
        return max(now - self._windows[0][0], least) if self._windows else least

    def _forget_old(self, now: float) -> None:
        oldest = now - self._window_s * self._count
        windows = self._windows
        while windows and windows[0][0] <= oldest:
            self._total -= windows.popleft()[1]
        if not windows:
            self._total = 0.0  # and with it what floating point has gathered


class TokenBucket:
    """A burst may use what was saved up; whoever is in debt waits (KIP-599)."""

    __slots__ = ("_at", "_tokens", "used_at")

    def __init__(self) -> None:
        self._tokens: float | None = None
        self._at = 0.0
        self.used_at = 0.0

    def delay(self, rate: float, burst_s: float, now: float) -> float:
        """Seconds until the debt is paid; 0 if there is none."""
        tokens = self._refill(rate, burst_s, now)
        if tokens >= 0:
            return 0.0
        return -tokens / rate if rate > 0 else burst_s

    def record(self, amount: float, rate: float, burst_s: float, now: float) -> None:
        """Take `amount`, on credit if need be."""
        self._tokens = self._refill(rate, burst_s, now) - amount
        self.used_at = now

    def _refill(self, rate: float, burst_s: float, now: float) -> float:
        most = rate * burst_s
        tokens = most if self._tokens is None else self._tokens
        self._tokens = min(tokens + rate * max(now - self._at, 0.0), most)
        self._at = now
        return self._tokens
