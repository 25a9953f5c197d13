"""`tidelog group`: lag, and moving what a group has read."""

import pytest

from tidelog import Consumer


@pytest.fixture
def group(cli, topic, unique):
    """A group that has read one of three messages."""
    cli("produce", topic, stdin=b"a\nb\nc\n").ok()
    name = unique("group")
    cli("consume", topic, "-g", name, "-n", 1, "--from-beginning").ok()
    return name


def test_list_and_describe(cli, topic, group):
    assert [group, "Empty", "classic"] in [each.split() for each in cli("group", "list").ok().lines]
    (described,) = cli("group", "describe", group, "--json").ok().json
    (row,) = described["partitions"]
    assert (row["topic"], row["offset"], row["log_end"], row["lag"]) == (topic, 1, 3, 2)
    assert 0 <= row["lag_seconds"] < 600
    assert row["member_id"] is None
    heads, line = cli("group", "describe", "--group", group).ok().lines[1:]
    assert heads.split()[:6] == ["GROUP", "TOPIC", "PARTITION", *heads.split()[3:6]]
    assert line.split()[:6] == [group, topic, "0", "1", "3", "2"]


def test_members_are_named(cli, broker, topic, group):
    with Consumer(bootstrap_servers=broker.bootstrap, group_id=group, topics=[topic]) as consumer:
        assert [each.value for each in consumer.poll(max_records=1, timeout=60)] == [b"b"]
        (described,) = cli("group", "describe", group, "--json").ok().json
        (row,) = described["partitions"]
        assert row["client_id"] == "tidelog"
        assert row["member_id"]
        ran = cli("group", "seek", group, "--to", "start")
        assert ran.code == 1
        assert group in ran.err or "members" in ran.err or "member" in ran.err


@pytest.mark.parametrize(
    ("options", "after"),
    [
        (["--to", "start"], 0),
        (["--to-earliest"], 0),
        (["--to", "end"], 3),
        (["--to", "2"], 2),
        (["--to-offset", "99"], 3),
        (["--shift-by", "1"], 2),
        (["--shift-by", "-9"], 0),
        (["--to-time", "1h"], 0),
    ],
)
def test_seek(cli, topic, group, options, after):
    planned = cli("group", "seek", group, *options, "--dry-run", "--json").ok().json
    assert [(each["before"], each["after"]) for each in planned] == [(1, after)]
    cli("group", "seek", group, *options, "--topic", topic).ok()
    (described,) = cli("group", "describe", group, "--json").ok().json
    assert described["partitions"][0]["offset"] == after


def test_delete(cli, topic, group):
    assert cli("group", "delete", group, "--topic", topic).ok().out.startswith("Deleted 1 offsets")
    cli("group", "delete", group).ok()
    ran = cli("group", "describe", group)
    assert ran.code == 1
    assert group in ran.err


def test_wrong_use(cli, group):
    assert cli("group", "seek", group, "--to", "somewhere").code == 2
    assert cli("group", "seek", group).code == 2
    assert cli("group", "describe").code == 2
    assert cli("group", "seek", "never-there", "--to", "start").code == 2
