"""The guide to testing: each of its examples is a test module that passes."""

import re
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parents[2] / "docs/guide/testing.md").read_text()
EXAMPLES = re.findall(r"### (.*?)\n.*?```python example\n(.*?)```", GUIDE, re.DOTALL)


@pytest.mark.parametrize(
    "source", [source for _, source in EXAMPLES], ids=[name for name, _ in EXAMPLES]
)
def test_an_example_passes(suite, source):
    outcome = suite(source).parseoutcomes()
    assert outcome == {"passed": source.count("\ndef test_")}


def test_there_are_three_and_a_first():
    assert len(EXAMPLES) == 3


def test_the_short_ones_pass(suite):
    first, cluster = re.findall(r"```python\n(def test_.*?)```", GUIDE, re.DOTALL)
    source = f"{first}\n\n{cluster}"
    suite(source, "-o", "tidelog_broker=process").assert_outcomes(passed=2)
