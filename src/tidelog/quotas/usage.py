"""What somebody has used lately, in several small windows, and how long to wait until it is within a limit.

Small windows find a violation soon, and end it soon: with large ones a burst would be followed by a long silence.

Whoever is within its limit on the average of the windows is left alone, as by Kafka's `Rate` and `ClientQuotaManager`: a
client that was silent may use at once what it has saved up.  Whoever exceeds it is *throttled* from then on: it pays for what
it used too much, and goes on at its limit, from request to request.  So it gets its limit evenly, where Kafka would let
it burst again as soon as the windows have forgotten the last time.
"""

from collections import deque

LEAST_DELAY_S = 0.001
"""Throttle times are told in milliseconds; what is less adds up until it is one."""


class Usage:
    """Amounts over the last `count` windows of `window_s` seconds each; the newest is not full yet.

    No delay is longer than `longest_s`.
    """

    __slots__ = (
        "_count",
        "_longest_s",
        "_paid_at",
        "_total",
        "_window_s",
        "_windows",
        "held_until",
        "used_at",
    )

    def __init__(
        self, window_s: float = 1.0, count: int = 11, longest_s: float = float("inf")
    ) -> None:
        self._window_s = window_s
        self._count = count
        self._longest_s = longest_s
        self._windows: deque[list[float]] = deque()
        """Start and amount of each window in which anything was used, oldest first."""
        self._total = 0.0
        self._paid_at: float | None = None
        """While throttled: when all that was used is paid for, and a window more; None for who is not throttled."""
        self.held_until = float("-inf")
        """When the last delay is over."""
        self.used_at = 0.0
        """When something was last recorded."""

    def record(self, amount: float, limit: float, now: float) -> float:
        """Count `amount`; seconds to wait until the rate is back at `limit`, 0 if it is not above it."""
        self.settle(now)
        self._note(amount, now)
        if self._paid_at is None:
            if self._total <= limit * self._span(now):
                return 0.0
            # When the average since the first window is back at the limit.  Nothing is left of the tolerance.
            self._paid_at = self._windows[0][0] + self._total / limit + self._window_s
        else:
            self._paid_at = max(self._paid_at, now) + amount / limit
        self._paid_at = min(self._paid_at, now + self._longest_s + self._window_s)
        # One window may be used ahead: a client below its limit does not send evenly either.
        delay = self._paid_at - self._window_s - now
        if delay < LEAST_DELAY_S:
            return 0.0
        self.held_until = now + delay
        return delay

    def ask(self, amount: float, limit: float, now: float) -> tuple[bool, float]:
        """Whether `amount` may be used now, in which case it is counted, and seconds to wait before anything else.

        What is more than a window allows is granted to who owes nothing: else it would never be.
        """
        self.settle(now)
        before = self._paid_at
        owes = before is not None and before > now
        delay = self.record(amount, limit, now)
        if not delay or (amount > limit * self._window_s and not owes):
            return True, delay
        self._note(-amount, now)
        if before is None:  # throttled from now on, by what was used before
            before = self._windows[0][0] + self._total / limit + self._window_s
        self._paid_at = before
        return False, delay

    def settle(self, now: float) -> bool:
        """Whether it is throttled; that ends when no delay was needed for as long as the windows remember."""
        if self._paid_at is not None and now > self.held_until + self._window_s * self._count:
            self._paid_at = None
        return self._paid_at is not None

    def rate(self, now: float) -> float:
        """Per second, over the time that the windows cover."""
        self._forget_old(now)
        return self._total / self._span(now)

    def _note(self, amount: float, now: float) -> None:
        self._forget_old(now)
        windows = self._windows
        if not windows or now >= windows[-1][0] + self._window_s:
            windows.append([now, 0.0])
        windows[-1][1] += amount
        self._total += amount
        self.used_at = now

    def _span(self, now: float) -> float:
        """At the beginning all windows but one count as if they had passed: else a first small burst looks like a flood."""
        least = max(self._count - 1, 1) * self._window_s
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
        """Take `amount`, on credit if need be; a negative one is given back."""
        self._tokens = min(self._refill(rate, burst_s, now) - amount, rate * burst_s)
        self.used_at = now

    def _refill(self, rate: float, burst_s: float, now: float) -> float:
        most = rate * burst_s
        tokens = most if self._tokens is None else self._tokens
        self._tokens = min(tokens + rate * max(now - self._at, 0.0), most)
        self._at = now
        return self._tokens
