"""Access rules: Kafka's model as a table, and against a plain reading of it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.security.acls import (
    Acl,
    Filter,
    Match,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceType,
    Rules,
    plain_host,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL


def acl(
    name="orders",
    principal="User:alice",
    operation=READ,
    permission=ALLOW,
    pattern=LITERAL,
    host="*",
):
    return Acl(TOPIC, name, pattern, principal, host, operation, permission)


def allows(rules, principal="User:alice", operation=READ, name="orders", host="10.0.0.1"):
    return rules.allows(principal, host, operation, Resource(TOPIC, name))


@pytest.mark.parametrize(
    ("acls", "question", "answer"),
    [
        ([], {}, False),
        ([acl()], {}, True),
        ([acl()], {"principal": "User:bob"}, False),
        ([acl()], {"name": "other"}, False),
        ([acl()], {"operation": WRITE}, False),
        ([acl()], {"operation": DESCRIBE}, True),
        ([acl(operation=ALL)], {"operation": WRITE}, True),
        ([acl(name="*")], {"name": "anything"}, True),
        ([acl(name="ord", pattern=PREFIXED)], {}, True),
        ([acl(name="ord")], {}, False),
        ([acl(name="orders-longer", pattern=PREFIXED)], {}, False),
        ([acl(principal="User:*")], {"principal": "User:bob"}, True),
        ([acl(host="10.0.0.1")], {}, True),
        ([acl(host="10.0.0.2")], {}, False),
        ([acl(), acl(permission=DENY)], {}, False),
        ([acl(), acl(name="*", permission=DENY)], {}, False),
        ([acl(), acl(name="o", pattern=PREFIXED, permission=DENY, operation=ALL)], {}, False),
        ([acl(), acl(permission=DENY, operation=WRITE)], {}, True),
        (
            [acl(operation=WRITE), acl(permission=DENY, operation=READ)],
            {"operation": DESCRIBE},
            True,
        ),
        ([acl(), acl(permission=DENY, principal="User:bob")], {}, True),
    ],
)
def test_who_may(acls, question, answer):
    assert allows(Rules(acls), **question) is answer


def test_super_users_may_everything():
    assert allows(Rules([acl(permission=DENY)], super_users=["User:alice"]))


def test_a_resource_without_rules_may_be_open_to_all():
    rules = Rules([acl()], allow_if_no_acl=True)
    assert allows(rules, principal="User:bob", name="free")
    assert not allows(rules, principal="User:bob", name="orders")


def test_another_kind_of_resource_is_another_resource():
    rules = Rules([acl()])
    assert not rules.allows("User:alice", "*", READ, Resource(GROUP, "orders"))


names = st.sampled_from(["a", "ab", "abc", "b", "*"])
acls = st.builds(
    Acl,
    st.just(TOPIC),
    names,
    st.sampled_from(PatternType),
    st.sampled_from(["User:x", "User:y", "User:*"]),
    st.sampled_from(["*", "h"]),
    st.sampled_from([READ, WRITE, DESCRIBE, ALL]),
    st.sampled_from(Permission),
)


@given(rules=st.lists(acls, max_size=6), name=names, operation=st.sampled_from([READ, DESCRIBE]))
def test_the_arranged_rules_say_what_a_plain_reading_says(rules, name, operation):
    def concerns(each: Acl) -> bool:
        if each.pattern is PREFIXED:
            return name.startswith(each.name)
        return each.name in (name, "*")

    said = {
        each.permission
        for each in rules
        if concerns(each) and each.concerns("User:x", "h") and each.covers(operation)
    }
    expected = ALLOW in said and DENY not in said
    assert Rules(rules).allows("User:x", "h", operation, Resource(TOPIC, name)) is expected


@given(rules=st.lists(acls, max_size=6), name=st.sampled_from(["a", "ab", "abc", "b", "bcd"]))
@example(  # a prefix that is a star is no star: names that begin with one
    rules=[
        Acl(TOPIC, "*", PatternType.LITERAL, "User:x", "*", WRITE, ALLOW),
        Acl(TOPIC, "*", PREFIXED, "User:x", "*", WRITE, DENY),
    ],
    name="a",
)
def test_whoever_may_write_somewhere_may_write_anywhere(rules, name):
    made = Rules(rules)
    if made.allows("User:x", "h", WRITE, Resource(TOPIC, name)):
        assert made.allows_any("User:x", "h", WRITE, TOPIC)


@pytest.mark.parametrize(
    ("filter_", "found"),
    [
        (Filter(), {"orders", "ord", "*", "other"}),
        (Filter(name="orders"), {"orders"}),
        (Filter(name="orders", pattern=LITERAL), {"orders"}),
        (Filter(name="orders", pattern=PREFIXED), set()),
        (Filter(name="orders", pattern=Match.MATCH), {"orders", "ord", "*"}),
        (Filter(pattern=PREFIXED), {"ord"}),
        (Filter(principal="User:bob"), {"other"}),
        (Filter(operation=WRITE), set()),
        (Filter(resource_type=GROUP), set()),
        (Filter(permission=DENY), set()),
    ],
)
def test_filters(filter_, found):
    rules = [
        acl(),
        acl(name="ord", pattern=PREFIXED),
        acl(name="*"),
        acl(name="other", principal="User:bob"),
    ]
    assert {each.name for each in rules if filter_.matches(each)} == found


@pytest.mark.parametrize(
    ("told", "plain"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("*", "*"),
        ("", ""),
    ],
)
def test_an_address_has_one_spelling(told, plain):
    assert plain_host(told) == plain
