"""The lag of groups as a coordinator finds it: in messages, in seconds, and what retention does to it."""

import pytest
from hot_path import HotPath, NoPeers

from tidelog.broker.metrics import group_lag
from tidelog.broker.metrics.group_lag import FRESH_S, GroupLags, timestamp_at
from tidelog.records.builder import build_batch
from tidelog.records.validate import validate_produced
from tidelog.storage.config import LogConfig

PLACE = ("events", 0)
HOUR_MS = 3_600_000


class Rig:
    def __init__(self, hot: HotPath) -> None:
        self.clock = hot.clock
        self.partition = hot.services.partitions.get(*PLACE)
        self.committed: list[tuple[str, tuple[str, int], int]] = []
        self.lags = GroupLags(
            lambda: self.committed,
            hot.services.partitions,
            hot.services.image,
            NoPeers(),
            hot.clock,
            lambda topic: LogConfig(),
        )

    def write(self, *ages_ms: int) -> None:
        """A batch with messages that are so old."""
        now_ms = self.clock.now_ms()
        records = bytearray(build_batch([(now_ms - age, None, b"x", ()) for age in ages_ms]))
        header, _ = validate_produced(
            records, 0, len(records), api_version=9, rules=self.partition.rules, now_ms=now_ms
        )
        self.partition.append(records, header)

    async def look(self):
        self.clock.advance(1000 * FRESH_S)
        await self.lags.refresh()
        return {each.group: each.verdict for each in self.lags.found}


@pytest.fixture
def rig(hot) -> Rig:
    return Rig(hot)


async def test_lag_in_messages_and_seconds(rig):
    rig.clock.advance(HOUR_MS)
    for age_ms in (60_000, 30_000, 10_000):
        rig.write(age_ms)
    rig.committed = [("all", PLACE, 3), ("some", PLACE, 1), ("none", PLACE, 0)]
    found = await rig.look()
    assert {group: each.lag for group, each in found.items()} == {"all": 0, "some": 2, "none": 3}
    assert {group: each.lag_seconds for group, each in found.items()} == {
        "all": 0.0,
        "some": 30 + FRESH_S,
        "none": 60 + FRESH_S,
    }


async def test_within_a_batch_messages_are_taken_to_be_evenly_spread(rig):
    rig.clock.advance(HOUR_MS)
    now_ms = rig.clock.now_ms()
    rig.write(40_000, 30_000, 20_000)
    assert timestamp_at(rig.partition, 0) == now_ms - 40_000
    assert timestamp_at(rig.partition, 1) == now_ms - 30_000
    assert timestamp_at(rig.partition, 2) == now_ms - 20_000
    assert timestamp_at(rig.partition, 3) is None
    assert timestamp_at(rig.partition, 99) is None


async def test_what_was_found_just_now_is_not_looked_for_again(rig):
    rig.write(0)
    rig.committed = [("g", PLACE, 0)]
    await rig.look()
    rig.committed = [("g", PLACE, 1)]
    await rig.lags.refresh()
    assert rig.lags.found[0].verdict.lag == 1
    assert (await rig.look())["g"].lag == 0


async def test_retention_overtakes_a_group_that_stands_still(rig):
    rig.partition.log.set_config(LogConfig(retention_ms=HOUR_MS))
    rig.clock.advance(HOUR_MS)
    rig.write(0)
    rig.committed = [("stuck", PLACE, 0), ("well", PLACE, 1)]
    assert (await rig.look())["stuck"].overtaken_in_seconds is None, "nothing to compare with yet"
    rig.clock.advance(60_000)
    found = await rig.look()
    left_s = 3600 - 60 - 2 * FRESH_S
    assert found["stuck"].overtaken_in_seconds == pytest.approx(left_s, abs=1)
    assert found["well"].overtaken_in_seconds is None
    rig.partition.log.set_config(LogConfig(retention_ms=HOUR_MS, cleanup_policy=("compact",)))
    assert (await rig.look())["stuck"].overtaken_in_seconds is None, "nothing is deleted by time"


async def test_what_is_lost_is_told(rig):
    for _ in range(5):
        rig.write(0)
    rig.partition.delete_records(3)
    rig.committed = [("late", PLACE, 1)]
    found = await rig.look()
    assert found["late"].lost == 2
    assert found["late"].lag == 4
    assert found["late"].lag_seconds == FRESH_S, "of the first that is still there"


async def test_places_that_nobody_has_are_left_out(rig):
    rig.committed = [("g", ("nowhere", 0), 5), ("g", ("events", 99), 5), ("g", PLACE, 0)]
    assert len(await rig.look()) == 1


async def test_work_is_bounded(rig, monkeypatch):
    monkeypatch.setattr(group_lag, "_MOST", 3)
    rig.committed = [(f"g{number}", PLACE, 0) for number in range(10)]
    assert len(await rig.look()) == 3
    assert rig.lags.left_out == 7


async def test_a_stuck_group_is_read_once(rig, monkeypatch):
    rig.write(0)
    rig.committed = [("stuck", PLACE, 0)]
    reads = []
    read = group_lag.timestamp_at

    def counted(*where):
        reads.append(where)
        return read(*where)

    monkeypatch.setattr(group_lag, "timestamp_at", counted)
    for _ in range(5):
        await rig.look()
    assert len(reads) == 1
