"""Topic patterns: the same names as `re` matches, whatever the pattern, and never for long."""

import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordination.groups.consumer.regex import Pattern, compile_pattern, matching
from tidelog.errors import InvalidRegularExpression

atoms = st.sampled_from(
    [
        "a",
        "b",
        ".",
        r"\.",
        "[ab]",
        "[^a]",
        "[a-c]",
        r"\d",
        r"\w",
        r"[\d_]",
        "1",
        "-",
        "_",
        "[]a]",
        "[a-]",
    ]
)
signs = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"])
simple = st.tuples(atoms, signs).map("".join)


def grouped(inner):
    """A group of alternatives, repeated."""
    opening = st.sampled_from(["(", "(?:"])
    options = st.lists(inner, min_size=1, max_size=3).map("|".join)
    return st.tuples(opening, options, st.just(")"), signs).map("".join)


# One level, and short names: `re` takes minutes for a star around a star around a star.  Deeper ones are among the samples.
pieces = simple | grouped(simple)
patterns = st.lists(pieces, max_size=2).map("".join)


@given(patterns, st.text("ab1._-", max_size=6), st.sampled_from(["", "(?i)"]))
def test_same_as_re(pattern, name, flags):
    assert compile_pattern(flags + pattern).fullmatch(name) == bool(
        re.fullmatch(flags + pattern, name)
    )


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("", "", True),
        ("^orders-.*$", "orders-eu", True),
        ("a^b", "ab", False),
        ("(?i)ORDERS", "Orders", True),
        ("orders|payments", "payments", True),
        ("orders|payments", "paymentsx", False),
        ("a{3}", "aaa", True),
        ("a{2,3}", "aaaa", False),
        ("[^.]+", "a.b", False),
        ("((a|b)*c)+", "abcc", True),
        ("((a|b)*c)+", "abca", False),
        ("(((a*)b)*|c)?d", "aabbd", True),
        ("(((a{2}b){2})?c)*", "aabaabcc", True),
        ("(((a{2}b){2})?c)*", "aabc", False),
    ],
)
def test_samples(pattern, name, expected):
    assert compile_pattern(pattern).fullmatch(name) is expected


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "[", "[a", "a{", "a{x}", "a{3,2}", "a{1001}", "*", "a**", "(?=a)", "(?!a)", "(?<=a)", r"(a)\1",
     r"\b", r"\pL", "\\", "[b-a]", "(?P<n>a)", "x" * 513, "((((a{9}){9}){9}){9})", "(" * 60 + ")" * 60],
)  # fmt: skip
def test_refused(pattern):
    with pytest.raises(InvalidRegularExpression):
        compile_pattern(pattern)


def test_patterns_that_stop_a_backtracking_matcher():
    assert not compile_pattern("(a+)+b").fullmatch("a" * 249)
    assert not compile_pattern("((((a*)*)*)*)*").fullmatch("a" * 249 + "-")
    assert not compile_pattern(".*.*.*.*.*.*x").fullmatch("a" * 249)


@pytest.mark.parametrize(
    "pattern", ["(.?){400}", "(.?){500}x", "(a|b)*a(a|b){100}", "(.*.*){200}", "((a?){20}){20}", "[^a-]*" * 80]
)  # fmt: skip
def test_no_pattern_takes_long(pattern):
    """Processor time, with room to spare: the first took 13 seconds for a few hundred topics."""
    choose = random.Random(1)
    names = ["".join(choose.choices("ab", k=249)) for _ in range(20)]
    began = time.thread_time()
    compiled = Pattern(pattern)
    for name in names:
        compiled.fullmatch(name)
    assert time.thread_time() - began < 0.25


def test_what_was_matched_once_is_known():
    compiled = Pattern("a.*")
    assert not compiled.knows("ab")
    assert compiled.fullmatch("ab")
    assert compiled.knows("ab")


def test_more_characters_than_topics_have():
    assert compile_pattern("app:.*").fullmatch("app:1/ä")
    assert compile_pattern("[^/]+").fullmatch("ä:b")
    assert not compile_pattern("[^/]+").fullmatch("a/b")
    assert compile_pattern(r"\W").fullmatch(":")


def test_internal_topics_are_not_matched():
    assert matching(".*", ["a", "__consumer_offsets", "__transaction_state"]) == {"a"}
