"""Whole runs: they keep their promises, and happen again exactly."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.testing.simulation.__main__ import main
from tidelog.testing.simulation.plan import Plan
from tidelog.testing.simulation.run import simulate
from tidelog.testing.simulation.scenario import parse

UNREACHABLE = "a_leader_that_its_followers_cannot_reach"
SCENARIOS = sorted(Path(__file__).parent.glob("scenarios/*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path):
    scenario = parse(path.read_text())
    outcome = simulate(scenario.seed, scenario=scenario)
    assert not outcome.violations, outcome.story.text()
    assert outcome.history.acknowledged


@pytest.mark.parametrize("silence_ms", [1200, 0])
def test_a_broker_that_the_others_cannot_reach_holds_up_writers_for_seconds(silence_ms: int):
    """In simulated time: from five seconds after the cut until it is healed."""
    text = (Path(__file__).parent / f"scenarios/{UNREACHABLE}.txt").read_text()
    text = text.replace("plan", f"plan replica.leader.silence.max.ms={silence_ms}")
    outcome = simulate(1, scenario=parse(text))
    [cut] = [each.time for each in outcome.story.happenings if each.what.startswith("cut b1>b2")]
    read = {
        each.tp.partition
        for polls in outcome.history.polls.values()
        for each in polls
        if each.value is not None and cut + 5 < each.time < cut + 10
    }
    assert read == (set(range(3)) if silence_ms else set())


def test_a_run_without_faults_acknowledges_everything():
    outcome = simulate(2, Plan(seconds=4.0, calm_s=1e9, power_cuts="never", transactions=True))
    assert not outcome.violations, outcome.story.text()
    assert outcome.history.failed == {}
    assert outcome.history.acknowledged
    assert {each.outcome for each in outcome.history.transactions} == {"committed", "aborted"}


def test_a_seed_happens_again_exactly():
    plan = Plan(seconds=4.0, calm_s=0.4, transactions=True)
    first, second = simulate(5, plan), simulate(5, plan)
    assert first.trace == second.trace
    assert first.story.happenings == second.story.happenings


def test_the_runner_shows_one_seed():
    command = [sys.executable, "-m", "tidelog.testing.simulation", "--seed", "2", "--trace"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "seed 2: all promises kept" in done.stdout
    assert "b1#1" in done.stdout


def test_the_runner_runs_several(capsys: pytest.CaptureFixture[str]):
    assert main(["--seeds", "2", "--from", "7", "--jobs", "2"]) == 0
    assert "2 seeds from 7, 0 failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line", ["1.0", "later kill b1", "1.0 tickle b1"], ids=["short", "no time", "no action"]
)
def test_a_scenario_that_says_nothing_is_refused(line: str):
    with pytest.raises(ValueError, match="line 2 is not a step"):
        parse(f"plan brokers=3\n{line}")
