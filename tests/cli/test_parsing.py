"""Percent formats, out and in again."""

import io

import pytest

from tidelog.cli._formats import formatter
from tidelog.cli._parsing import reader
from tidelog.client.message import Message
from tidelog.errors import SettingsError


def read(format, data):
    return [tuple(each) for each in reader(format)(io.BytesIO(data))]


@pytest.mark.parametrize(
    ("format", "data", "found"),
    [
        (r"%v\n", b"a\n\nb", [(None, b"a"), (None, b""), (None, b"b")]),
        (r"%k:%v\n", b"a:1:x\nb:2\n", [(b"a", b"1:x"), (b"b", b"2")]),
        (r"%k\t%v;;", b"a\t1;2;;b\t;;", [(b"a", b"1;2"), (b"b", b"")]),
        (r"<%v>%k%%\n", b"<v>k%\n", [(b"k", b"v")]),
        (r"%K,%V,%k%v", b"1,3,k\n:,-1,2,vv", [(b"k", b"\n:,"), (None, b"vv")]),
        (r"%V %v\n", b"-1 \n1 \n\n", [(None, None), (None, b"\n")]),
        (r"%t %p/%o %s\x0a", b"orders 0/7 x\n", [(None, b"x")]),
    ],
)
def test_what_is_read(format, data, found):
    assert [each[:2] for each in read(format, data)] == found


def test_times_headers_and_partitions():
    (found,) = read(r"%T|%p|%h|%v\n", b"5000|3|a=1,b=x=y|v\n")
    assert found == (None, b"v", (("a", b"1"), ("b", b"x=y")), 3, 5000)
    (found,) = read(r"%d %v\n", b"1970-01-01T00:00:05Z v\n")
    assert found[4] == 5000


@pytest.mark.parametrize("format", [r"%t %p %o %T %k %v %h\n", r"%K %V %k%v"])
def test_what_consume_prints_can_be_read(format):
    messages = [
        Message("t", 1, number, 1000 + number, b"k%d" % number, b"v" * number, (("h", b"1"),))
        for number in range(1, 5)
    ]
    data = b"".join(map(formatter(format), messages))
    assert [each[:2] for each in read(format, data)] == [(m.key, m.value) for m in messages]


@pytest.mark.parametrize(
    ("format", "told"),
    [
        (r"%v", "nothing says where %v ends"),
        (r"%k%v\n", "nothing says where %k ends"),
        (r"%t\n", "neither %v nor %k"),
        (r"%z %v\n", "%z is not known"),
    ],
)
def test_formats_that_cannot_be_read(format, told):
    with pytest.raises(SettingsError, match=told):
        reader(format)


@pytest.mark.parametrize(
    ("format", "data", "told"),
    [
        (r"%T %v\n", b"soon x\n", "'soon' is no number"),
        (r"%k:%v\n", b"no key", "the input ends before ':': 'no key'"),
        (r"%V,%v", b"9,abc", "ends 6 bytes too early"),
        (r"<%v>\n", b"[x]\n", r"'\[x\]\\n' is there instead of '<'"),
    ],
)
def test_input_that_does_not_fit(format, data, told):
    with pytest.raises(SettingsError, match=told):
        read(format, data)


def test_produce_reads_what_consume_prints(cli, topic, unique):
    lines = b"a:1\nb:two\n"
    cli("produce", topic, "-f", r"%k:%v\n", "-H", "h=1", stdin=lines).ok()
    assert cli("consume", topic, "-f", r"%k:%v\n").ok().out.encode() == lines
    out = cli("consume", topic, "-f", "%K,%V,%k%v").ok().out.encode()
    copy = unique("copy")
    cli("produce", copy, "-f", "%K,%V,%k%v", stdin=out).ok()
    assert cli("consume", copy, "-f", r"%k:%v\n").ok().out.encode() == lines
    assert cli("produce", topic, "-f", "%v", stdin=lines).code == 2
