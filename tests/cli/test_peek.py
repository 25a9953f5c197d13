"""`tidelog peek`: the last messages, and tests of messages."""

import pytest

from tidelog.client.filters import message_filter
from tidelog.client.message import Message
from tidelog.errors import SettingsError

MESSAGE = Message(
    "orders", 2, 7, 5_000, b"k1", b'{"user": {"id": 7}, "tags": ["a"]}', (("source", b"shop"),)
)


@pytest.mark.parametrize(
    ("test", "passes"),
    [
        ("key=k1", True),
        ("key=k2", False),
        ("key!=k2", True),
        ("value~user.*7", True),
        ("value!~user", False),
        ("value.user.id=7", True),
        ("value.user.id>10", False),
        ("value.tags.0=a", True),
        ("value.absent.deep=", True),
        ("header.source=shop", True),
        ("header.other=x", False),
        ("offset<10", True),
        ("partition = 2", True),
        ("topic~^ord", True),
        ("time<=5s", True),
        ("time>1s", False),
    ],
)
def test_tests(test, passes):
    assert message_filter([test], now_ms=10_000)(MESSAGE) is passes


@pytest.mark.parametrize("test", ["", "key", "colour=red", "value~(", "time>soonish", "header=x"])
def test_a_test_that_is_none_is_refused_with_its_text(test):
    with pytest.raises(SettingsError) as caught:
        message_filter([test], now_ms=0)
    assert "soonish" in str(caught.value) or repr(test) in str(caught.value)


def test_the_last_ones(cli, topic):
    cli("topic", "add-partitions", topic, "-n", 1).ok()
    cli("produce", topic, stdin=b"".join(b"%d\n" % each for each in range(30))).ok()
    lines = cli("peek", topic, "-n", 2, "--format", "%v\n").ok().lines
    assert len(lines) == 2
    assert cli("peek", topic, "-n", 99, "--format", "%v\n").ok().out.count("\n") == 30
    found = cli("peek", topic, "--where", "value~^2", "--format", "%v\n").ok().lines
    assert sorted(found) == ["2", *map(str, range(21, 30))][: len(found)] or len(found) == 10


def test_readable(cli, topic):
    cli("produce", topic, "-k", "a", "--timestamp", 1000, stdin=b'{"b": [1]}\n\x1b[2J\n').ok()
    first, *rest = cli("peek", topic).ok().lines
    assert first == f"{topic}-0 @0  1970-01-01T00:00:01.000Z  key a"
    assert rest[:5] == ["    {", '      "b": [', "        1", "      ]", "    }"]
    assert "\x1b" not in "".join(rest)


def test_csv(cli, topic):
    cli("produce", topic, "--timestamp", 5, stdin=b'say "hi", you\n').ok()
    assert cli("peek", topic, "--format", "csv").ok().lines == [
        "topic,partition,offset,timestamp,key,value,headers",
        f'{topic},0,0,5,,"say ""hi"", you",',
    ]


def test_consume_filters_too(cli, topic):
    cli("produce", topic, stdin=b"a\nb\nab\n").ok()
    assert cli("consume", topic, "--where", "value~b").ok().lines == ["b", "ab"]


def test_an_empty_topic(cli, topic):
    assert cli("peek", topic).ok().out == ""
