"""Every mutant still finds the place that it breaks, and the result is still Python."""

import ast
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent)]

from mutation import ROOT, Mutant, NoSuchPlace, mutants, mutated  # noqa: E402


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_the_place_is_there_once(mutant: Mutant):
    ast.parse(mutated(mutant))
    for test in mutant.tests:
        assert (ROOT / test.partition("::")[0]).exists(), test


def test_there_are_enough():
    names = [each.name for each in mutants()]
    assert len(names) >= 12
    assert len(set(names)) == len(names)


def test_a_place_that_has_moved_is_told():
    lost = Mutant("lost", "names.py", "this text is nowhere", "", ())
    with pytest.raises(NoSuchPlace, match=r"'lost': its text is 0 times in src/tidelog/names.py"):
        mutated(lost)


def test_a_place_that_is_there_twice_is_told(tmp_path: Path):
    (tmp_path / "twice.py").write_text("same\nsame\n")
    with pytest.raises(NoSuchPlace, match="2 times"):
        mutated(Mutant("twice", "twice.py", "same", "other", ()), tmp_path)
