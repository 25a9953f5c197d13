"""The pytest plugin, as tests that use it see it."""

import contextlib
import os
import select
import sys

import pytest

BOTH = pytest.mark.parametrize("kind", ["thread", "process"])


@BOTH
def test_topics_and_groups_are_the_tests_own(suite, kind):
    suite(
        """
        import pytest

        seen = set()

        @pytest.mark.parametrize("word", ["a", "b/c é"])
        def test_one(tidelog, word):
            topic = tidelog.topic("orders", 2)
            assert topic == tidelog.topic("orders")
            assert topic not in seen and tidelog.group() not in seen
            seen.update([topic, tidelog.group()])
            assert tidelog.messages(topic) == []
            tidelog.produce(topic, "x", b"y", key="k", headers=[("h", b"1")])
            tidelog.produce(topic, None, partition=1, timestamp=5)
            found = tidelog.messages(topic, 3)
            assert sorted(each.value or b"" for each in found) == [b"", b"x", b"y"]
            (null,) = [each for each in found if each.value is None]
            assert (null.partition, null.timestamp) == (1, 5)
            assert tidelog.admin.list_topics() == [topic]
        """,
        "-o",
        f"tidelog_broker={kind}",
    ).assert_outcomes(passed=2)


def test_an_exact_topic_is_empty_for_every_test(suite):
    suite(
        """
        import pytest

        @pytest.mark.parametrize("number", range(3))
        def test_one(tidelog, number):
            assert tidelog.topic("orders", exact=True, configs={"retention.ms": 1000}) == "orders"
            tidelog.produce("orders", str(number))
            assert [each.value for each in tidelog.messages("orders")] == [b"%d" % number]
        """
    ).assert_outcomes(passed=3)


def test_what_is_missing_is_told(suite):
    result = suite(
        """
        def test_one(tidelog):
            topic = tidelog.topic()
            tidelog.produce(topic, "a")
            tidelog.messages(topic, 2, timeout=0.1)
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*TimeoutError: topic-test_one-1 has 1 messages after 0.1 s, not 2: [[]b'a'[]]"]
    )


def test_settings_and_place_come_from_the_ini_file(suite, pytester):
    pytester.makeini(
        """
        [pytest]
        tidelog_broker = process
        tidelog_settings =
            num.partitions = 7
            message.max.bytes=2000
        """
    )
    suite(
        """
        import os

        def test_one(tidelog, tidelog_broker):
            assert tidelog.broker is tidelog_broker
            assert tidelog_broker.pid != os.getpid()
            tidelog.admin.create_topics({"many": -1})
            assert len(tidelog.admin.describe_topics(["many"])["many"].partitions) == 7
        """
    ).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("tidelog_broker=moon", "*tidelog_broker = moon: write thread or process*"),
        ("tidelog_settings=num.partitions", "*'num.partitions' must be written as name=value*"),
        ("tidelog_settings=num.partition=1", "*num.partition*did you mean*num.partitions*"),
    ],
)
def test_wrong_options_are_told(suite, option, message):
    result = suite("def test_one(tidelog): pass", "-o", option)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])


def test_whoever_does_not_use_it_pays_nothing(suite):
    suite(
        """
        import sys

        def test_one():
            ours = {each for each in sys.modules if each.startswith("tidelog")}
            assert ours <= {"tidelog", "tidelog.testing", "tidelog.testing.plugin"}
            assert not any(each.name.startswith("tidelog") for each in __import__("threading").enumerate())
        """
    ).assert_outcomes(passed=1)


def test_the_broker_is_imported_as_it_is(suite):
    suite(
        """
        import sys

        def test_one(tidelog):
            loader = sys.modules["tidelog.broker.broker"].__spec__.loader
            assert "assertion" not in type(loader).__module__
        """
    ).assert_outcomes(passed=1)


@BOTH
def test_nothing_is_left_behind(suite, pytester, kind):
    suite(
        """
        from pathlib import Path

        def test_one(tidelog):
            tidelog.produce(tidelog.topic(), "a")
            Path("directory").write_text(str(tidelog.broker.directory))
            Path("port").write_text(str(tidelog.broker.port))
        """,
        "-o",
        f"tidelog_broker={kind}",
    ).assert_outcomes(passed=1)
    assert not pytester.path.joinpath((pytester.path / "directory").read_text()).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="pidfd_open is Linux's")
def test_a_child_ends_when_the_tests_are_killed(suite, pytester):
    suite(
        """
        import os, signal
        from pathlib import Path

        def test_one(tidelog):
            Path("pid").write_text(str(tidelog.broker.pid))
            Path("directory").write_text(str(tidelog.broker.directory))
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        "-o",
        "tidelog_broker=process",
    )
    pid = int((pytester.path / "pid").read_text())
    with contextlib.suppress(ProcessLookupError):  # it is gone already
        descriptor = os.pidfd_open(pid)
        assert select.select([descriptor], [], [], 30)[0], "the child is still there"
        os.close(descriptor)
    assert not pytester.path.joinpath((pytester.path / "directory").read_text()).exists()


@BOTH
def test_the_next_test_finds_a_broker_whatever_was_done(suite, kind):
    suite(
        """
        import pytest

        @pytest.mark.parametrize("deed", ["kill", "pause", "restart", "fail", "freeze"])
        def test_one(tidelog, deed):
            topic = tidelog.topic()
            assert tidelog.messages(topic) == []
            tidelog.produce(topic, "a")
            if deed == "fail":
                tidelog.faults.fail("Produce", 6, times=None)
            elif deed == "freeze":
                tidelog.faults.freeze(topic)
            else:
                getattr(tidelog.broker, deed)()

        def test_two(tidelog):
            tidelog.produce(tidelog.topic(), "a")
        """,
        "-o",
        f"tidelog_broker={kind}",
    ).assert_outcomes(passed=6)
