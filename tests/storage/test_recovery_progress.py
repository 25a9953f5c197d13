"""A long recovery tells how far it is, and a short one says nothing."""

import logging

from tidelog.clock import Clock
from tidelog.storage.progress import Progress


class TickingClock(Clock):
    """Every look at it is `step` seconds later."""

    def __init__(self, step: float) -> None:
        self._step, self._now = step, 0.0

    def now_ms(self) -> int:
        return int(self._now * 1000)

    def monotonic(self) -> float:
        self._now += self._step
        return self._now


def test_at_most_one_line_a_second(caplog):
    caplog.set_level(logging.INFO)
    progress = Progress(TickingClock(0.3), total=200)
    progress.begin("orders-3", number=17)
    progress.scan(1000)
    for position in range(0, 1000, 100):
        progress.at(position)
    assert [each.message for each in caplog.records] == [
        "recovering orders-3: 20 % (log 17 of 200)",
        "recovering orders-3: 60 % (log 17 of 200)",
    ]


def test_a_start_tells_of_a_long_recovery(bench, caplog, monkeypatch):
    monkeypatch.setattr(Progress, "STEP_BYTES", 1)
    caplog.set_level(logging.INFO)
    log = bench.open(segment_bytes=2000)
    for _ in range(10):
        bench.append(log, [bytes(500)])
    log.close(clean=False)
    bench.clock = TickingClock(0.5)
    progress = Progress(bench.clock, total=1)
    progress.begin("orders-3", number=1)
    log = bench.open(segment_bytes=2000, progress=progress)
    assert len(bench.values(log)) == 10
    told = [each.message for each in caplog.records if "recovering" in each.message]
    assert len(told) > 3
    assert all(each.startswith("recovering orders-3: ") for each in told)
    shares = [int(each.split()[2]) for each in told]
    assert shares == sorted(shares)
    assert shares[-1] < 100
