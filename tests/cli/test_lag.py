"""Lag in messages and in time, its trend, and when retention comes."""

import time

import pytest

from tidelog import Admin, Consumer, Producer, SimpleConsumer, TopicPartition
from tidelog.cli._lag import Prober, duration, forecast, trend
from tidelog.errors import TopicAuthorizationFailed
from tidelog.lag import Evidence, Moment, Verdict, judge

NOW = 10_000_000
HOUR = 3_600_000


def moment(committed, log_end, *, ago_s=0.0, waits_s=None):
    """The first unread message of a moment has waited so long by then."""
    at_ms = NOW - int(ago_s * 1000)
    since = None if waits_s is None else at_ms - int(waits_s * 1000)
    return Moment(at_ms, committed, log_end, since)


@pytest.mark.parametrize(
    ("then", "later", "now", "limits", "expected"),
    [
        pytest.param(None, None, moment(5, 5), {}, (0, 0.0, None, None, 0), id="nothing to read"),
        pytest.param(
            moment(0, 100, ago_s=10, waits_s=1),
            None,
            moment(0, 200, waits_s=11),
            {"retention_ms": HOUR},
            (200, 11.0, 10.0, 3589.0, 0),
            id="it stands still, so retention comes at the speed of time",
        ),
        pytest.param(
            moment(0, 100, ago_s=10, waits_s=10),
            None,
            moment(50, 200, waits_s=15),
            {"retention_ms": 20_000},
            (150, 15.0, 5.0, 10.0, 0),
            id="it reads too slowly",
        ),
        pytest.param(
            moment(0, 100, ago_s=10, waits_s=10),
            None,
            moment(150, 200, waits_s=5),
            {"retention_ms": HOUR},
            (50, 5.0, -5.0, None, 0),
            id="it catches up",
        ),
        pytest.param(
            moment(0, 1000, ago_s=10, waits_s=0),
            None,
            moment(900, 1000, waits_s=10),
            {"retention_ms": HOUR},
            (100, 10.0, -90.0, None, 0),
            id="what it reads gets older, but it is through in a second",
        ),
        pytest.param(
            moment(100, 200, ago_s=20, waits_s=4),
            moment(200, 300, ago_s=10, waits_s=4),
            moment(200, 400, waits_s=14),
            {"retention_ms": HOUR},
            (200, 14.0, 0.0, None, 0),
            id="between two commits it only seems to stand still",
        ),
        pytest.param(
            moment(100, 1000, ago_s=10, waits_s=None),
            None,
            moment(150, 1100, waits_s=None),
            {"retained": 1000},
            (950, None, 5.0, 10.0, 0),
            id="soon there is no room for all that is unread",
        ),
        pytest.param(
            moment(0, 1000, ago_s=10),
            None,
            moment(0, 1000),
            {"log_start": 70, "retention_ms": HOUR},
            (1000, None, 0.0, None, 70),
            id="retention was there before it",
        ),
        pytest.param(
            moment(0, 100, ago_s=0.1, waits_s=1),
            None,
            moment(0, 200, waits_s=1),
            {"retention_ms": HOUR},
            (200, 1.0, None, None, 0),
            id="too close to tell",
        ),
    ],
)
def test_what_follows(then, later, now, limits, expected):
    log_start = limits.get("log_start", 0)
    limits = {name: value for name, value in limits.items() if name != "log_start"}
    assert judge(Evidence(now, then, later, log_start, **limits)) == Verdict(*expected)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, None),
        (0.0, "0 s"),
        (1.44, "1.4 s"),
        (59.4, "59 s"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (3 * 3600 + 12 * 60 + 40, "3 h 12 min"),
        (86_400 * 2 + 5, "2 d"),
        (86_400 * 9 + 3600, "9 d 1 h"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_words():
    still = Verdict(5, 1.0, 0.0, 11_520.0, 0)
    assert (trend(still), forecast(still)) == ("steady", "reaches it in 3 h 12 min")
    lost = Verdict(5, None, -2.5, None, 7)
    assert (trend(lost), forecast(lost)) == ("shrinking 2.5/s", "has deleted 7 unread")
    unknown = Verdict(5, None, None, None, 0)
    assert (trend(unknown), forecast(unknown)) == (None, None)


@pytest.fixture
def slow(cli, broker, topic, unique):
    """A group that has read 5 of 100 old messages, of a topic that keeps them for an hour."""
    cli("topic", "alter", topic, "-c", "retention.ms=3600000").ok()
    then = int(time.time() * 1000) - 60_000
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(100):
            producer.send(topic, b"x", timestamp=then + number)
    name = unique("group")
    cli("consume", topic, "-g", name, "-n", 5, "--from-beginning").ok()
    return name


def test_a_group_that_has_stopped(cli, topic, slow):
    (described,) = cli("group", "describe", slow, "--json").ok().json
    (row,) = described["partitions"]
    assert (row["offset"], row["log_end"], row["lag"], row["lost"]) == (5, 100, 95, 0)
    assert 60 <= row["lag_seconds"] < 120
    line = cli("group", "describe", slow).ok().lines[-1]
    assert slow in line
    assert "1 min" in line


def test_what_retention_has_deleted_is_told(cli, topic, slow):
    cli("topic", "trim", topic, "--offset", 30).ok()
    (row,) = cli("group", "describe", slow, "--json").ok().json[0]["partitions"]
    assert (row["lost"], row["lag_seconds"]) == (25, None)
    assert "has deleted 25 unread" in cli("group", "describe", slow).ok().out


def test_without_the_groups_commits_there_is_no_trend(cli, slow, monkeypatch):
    def refused(self, group, wanted):
        raise TopicAuthorizationFailed

    monkeypatch.setattr(Prober, "_read_history", refused)
    (row,) = cli("group", "describe", slow, "--json").ok().json[0]["partitions"]
    assert (row["lag"], row["lag_per_second"], row["overtaken_in_seconds"]) == (95, None, None)
    assert row["lag_seconds"] >= 60


def test_retention_by_size(cli, broker, topic, slow):
    cli("topic", "alter", topic, "-c", "retention.bytes=1000000", "-c", "retention.ms=-1").ok()
    where = broker.bootstrap
    with Admin(bootstrap_servers=where) as admin, SimpleConsumer(bootstrap_servers=where) as reader:
        prober = Prober(admin, reader, int(time.time() * 1000))
        retained = prober._retained(TopicPartition(topic, 0), 1_000_000, 100)
    assert 10_000 < retained < 200_000  # a record of one byte takes a few
    assert cli("group", "describe", slow, "--json").ok().json


def test_a_group_of_the_new_protocol(cli, broker, topic, unique):
    cli("produce", topic, stdin=b"a\nb\n").ok()
    group = unique("group")
    with Consumer(
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        group_protocol="consumer",
        auto_offset_reset="earliest",
        topics=[topic],
    ) as consumer:
        assert [each.value for each in consumer.poll(max_records=1, timeout=60)] == [b"a"]
        (described,) = cli("group", "describe", group, "--json").ok().json
        assert (described["type"], described["state"]) == ("consumer", "Stable")
        (member,) = described["members"]
        assert member["partitions"] == [f"{topic}-0"]
        assert described["partitions"][0]["member_id"] == member["member_id"]
        out = cli("group", "describe", group, "--members").ok().out
        assert f"Group {group} (consumer protocol): Stable, 1 member\n" in out
        assert f"{topic}-0" in out


def test_all_groups(cli, slow):
    groups = [
        each["group"] for each in cli("group", "describe", "--all-groups", "--json").ok().json
    ]
    assert slow in groups
