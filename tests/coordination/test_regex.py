"""Topic patterns: the same names as `re` matches, whatever the pattern, and never for long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordination.groups.consumer.regex import compile_pattern, matching
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
pieces = st.recursive(
    st.tuples(atoms, signs).map("".join),
    lambda inner: st.tuples(
        st.sampled_from(["(", "(?:"]),
        st.lists(inner, min_size=1, max_size=3).map("|".join),
        st.just(")"),
        signs,
    ).map("".join),
    max_leaves=6,
)
patterns = st.lists(pieces, max_size=4).map("".join)


@given(patterns, st.text("ab1._-", max_size=8), st.sampled_from(["", "(?i)"]))
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
    assert not compile_pattern(".*.*.*.*.*.*x").fullmatch("a" * 249)


def test_internal_topics_are_not_matched():
    assert matching(".*", ["a", "__consumer_offsets", "__transaction_state"]) == {"a"}
