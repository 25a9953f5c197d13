"""Breaks the product on purpose: the simulation has to notice, else it would notice nothing."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidelog.cluster import image, registration
from tidelog.cluster.commits import Commits
from tidelog.cluster.image import PartitionState
from tidelog.cluster.metadata import PartitionChangeRecord
from tidelog.cluster.replica import Followers
from tidelog.storage import producers
from tidelog.storage.log import Log
from tidelog.testing.simulation.run import simulate
from tidelog.testing.simulation.scenario import parse

Break = Callable[[pytest.MonkeyPatch], None]

ALONE = """
# The leader is cut off from the other replicas while clients reach it, and is killed: what it has alone is lost.
plan seconds=9
2.0  cut leader>second leader>third second>leader third>leader
3.5  kill leader
4.0  heal leader>second leader>third second>leader third>leader
8.0  start leader
"""

BEHIND = """
# The leader is killed while what it has is on its slow way to the other replicas.
plan seconds=9
2.0  slow second>leader 400
2.0  slow third>leader 400
2.5  slow leader>second 700
2.5  slow leader>third 700
4.0  cut leader>second leader>third
5.5  kill leader
8.0  start leader
"""

ANSWERS_LOST = """
# The producer's batches arrive and the answers do not, so it sends them again.
plan seconds=6
1.0  cut b1>p0.1 b2>p0.1 b3>p0.1
3.5  heal b1>p0.1 b2>p0.1 b3>p0.1
"""

ZOMBIE = """
# A leader that was paused does not know that it was replaced.
plan seconds=9 partitions=3
2.0  pause b3
6.0  resume b3
"""

POWER = """
# One of two replicas in sync loses its power and its records.
plan seconds=10
2.0  stop b1
3.0  power b2
3.2  kill b3
3.4  start b2
7.0  start b3
"""

ALL_POWER = (Path(__file__).parent / "scenarios/all_lose_their_power_at_once.txt").read_text()

ABORTS = "plan seconds=4 transactions=true"


def acknowledge_at_once(patch: pytest.MonkeyPatch) -> None:
    def wait(self: Commits, last_offset: int) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future

    patch.setattr(Commits, "then", lambda self, last_offset, then: then(None))
    patch.setattr(Commits, "wait", wait)


def commit_alone(patch: pytest.MonkeyPatch) -> None:
    def committed_end(self: Followers, own_end: int, *_: Any) -> int:
        return own_end

    patch.setattr(Followers, "committed_end", committed_end)


def recognise_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producers, "_find", lambda producer, header: None)


def keep_the_epoch(patch: pytest.MonkeyPatch) -> None:
    right = image.changed

    def changed(state: PartitionState, record: PartitionChangeRecord) -> PartitionState:
        return replace(right(state, record), leader_epoch=state.leader_epoch)

    patch.setattr(image, "changed", changed)


def trust_who_lost_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registration, "_after_unclean_stop", lambda *_: [])


def sync_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "flush_due", lambda self: False)


def tell_of_no_aborts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "aborted_transactions", lambda *_: [])


@pytest.mark.parametrize(
    ("harm", "scenario", "complaint"),
    [
        (acknowledge_at_once, ALONE, ("lost write", "two values")),
        (commit_alone, BEHIND, ("lost write", "two values", "end went back")),
        (recognise_nothing, ANSWERS_LOST, ("duplicate",)),
        (keep_the_epoch, ZOMBIE, ("two leaders",)),
        (trust_who_lost_records, POWER, ("lost write", "two values")),
        (sync_nothing, ALL_POWER, ("lost write", "two values")),
        (tell_of_no_aborts, ABORTS, ("aborted read", "copied twice")),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_the_mutant_is_noticed(
    harm: Break, scenario: str, complaint: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    harm(monkeypatch)
    found = simulate(1, scenario=parse(scenario)).violations
    assert any(line.startswith(complaint) for line in found), found


@pytest.mark.parametrize("scenario", [ALONE, BEHIND, ANSWERS_LOST, ZOMBIE, POWER, ABORTS])
def test_the_product_as_it_is_keeps_its_promises(scenario: str):
    outcome = simulate(1, scenario=parse(scenario))
    assert not outcome.violations, outcome.story.text()
