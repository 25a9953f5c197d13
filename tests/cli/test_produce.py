"""`tidelog produce`: what stands in a line, and where it goes."""

import json

import pytest


def read(cli, topic):
    lines = cli("consume", topic, "--format", "json", "--exit").ok().lines
    return [json.loads(line) for line in lines]


def test_lines_become_messages(cli, topic):
    assert cli("produce", topic, stdin=b"one\ntwo\r\n\nlast").ok().out == ""
    assert [each["value"] for each in read(cli, topic)] == ["one", "two", "", "last"]


def test_key_separator_and_headers(cli, topic):
    cli("produce", topic, "--key-separator", ":", "-H", "from=me", stdin=b"a:1:x\nb:2\n").ok()
    assert [(each["key"], each["value"]) for each in read(cli, topic)] == [("a", "1:x"), ("b", "2")]
    assert read(cli, topic)[0]["headers"] == [{"name": "from", "value": "me"}]


def test_a_line_without_the_separator_is_named(cli, topic):
    ran = cli("produce", topic, "--key-separator", ":", stdin=b"no key\n")
    assert ran.code == 2
    assert "'no key'" in ran.err


def test_files_whole_or_by_line(cli, topic, tmp_path):
    (tmp_path / "poem").write_bytes(b"two\nlines\n")
    cli("produce", topic, "--file", tmp_path / "poem").ok()
    cli("produce", topic, "--file", tmp_path / "poem", "--whole", "--key", "k").ok()
    assert [each["value"] for each in read(cli, topic)] == ["two", "lines", "two\nlines\n"]
    ran = cli("produce", topic, "--file", tmp_path / "absent")
    assert ran.code == 1
    assert "absent" in ran.err


def test_tombstones(cli, topic):
    cli("produce", topic, "-Z", "--key-separator", ":", stdin=b"gone:\n").ok()
    assert read(cli, topic)[0]["value"] is None


def test_json_goes_round(cli, topic, unique):
    line = {"key_base64": "/w==", "value": "x", "headers": [{"name": "h", "value": None}]}
    cli("produce", topic, "--format", "json", stdin=json.dumps(line).encode() + b"\n").ok()
    (said,) = read(cli, topic)
    assert {name: said[name] for name in line} == line
    ran = cli("produce", topic, "--format", "json", stdin=b"[1]\n")
    assert (ran.code, ran.err.count("\n")) == (2, 1)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs_and_acks(cli, topic, codec):
    for acks in ("0", "1", "all"):
        cli("produce", topic, "--compression", codec, "--acks", acks, stdin=b"x\n").ok()
    assert [each["value"] for each in read(cli, topic)] == ["x"] * 3


def test_verbose_and_json_tell_where(cli, topic):
    assert cli("produce", topic, "-v", stdin=b"x\n").ok().out.startswith(f"{topic}-0 offset 0 ")
    said = cli("produce", topic, "--json", stdin=b"x\n").ok().json
    assert (said["topic"], said["partition"], said["offset"]) == (topic, 0, 1)


def test_failures_are_one_line(cli, topic):
    too_large = cli("produce", topic, stdin=b"x" * 3_000_000 + b"\n")
    assert (too_large.code, too_large.err.count("\n")) == (1, 1)
    assert cli("produce", "not/legal", stdin=b"x\n").code == 1
    assert cli("produce", topic, "--partition", 9, stdin=b"x\n").code == 1
