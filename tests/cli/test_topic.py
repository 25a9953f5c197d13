"""`tidelog topic`, as the manual's quick start uses it."""

import os
import pty
import re
import subprocess
import sys

import pytest


def test_create_list_describe_delete(cli, unique):
    name = unique("quick")
    made = cli("topic", "create", "--topic", name, "--partitions", 2, "--replication-factor", 1)
    assert made.ok().out == f"Created topic {name}.\n"
    assert name in cli("topic", "list").ok().lines
    first, *rest = cli("topic", "describe", "--topic", name).ok().lines
    assert first.startswith(f"Topic: {name}\tTopicId: ")
    assert first.endswith("\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: ")
    assert rest == [
        f"\tTopic: {name}\tPartition: {each}\tLeader: 0\tReplicas: 0\tIsr: 0" for each in (0, 1)
    ]
    assert cli("topic", "delete", name).ok().out == f"Deleted topic {name}.\n"
    assert name not in cli("topic", "list").ok().lines


def test_alter_sets_and_takes_back(cli, topic):
    cli("topic", "alter", topic, "-c", "retention.ms=1000", "-c", "segment.bytes=2000000").ok()
    (described,) = cli("topic", "describe", topic, "--json").ok().json
    assert described["configs"] == {"retention.ms": "1000", "segment.bytes": "2000000"}
    cli("topic", "alter", topic, "--deleteConfig", "retention.ms", "--partitions", 3).ok()
    (described,) = cli("topic", "describe", topic, "--json").ok().json
    assert described["configs"] == {"segment.bytes": "2000000"}
    assert described["partition_count"] == 3


def test_add_partitions_counts_what_is_there(cli, topic):
    assert cli("topic", "add-partitions", topic, "-n", 2).ok().out.endswith("has 3 partitions.\n")
    assert cli("topic", "add-partitions", topic, "--partitions", 2).code == 1


def test_what_is_there_already_is_an_error_unless_allowed(cli, topic):
    ran = cli("topic", "create", topic)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert topic in ran.err
    assert cli("topic", "create", topic, "--if-not-exists").ok().out == ""


def test_what_is_not_there_is_an_error_unless_allowed(cli):
    for action in ("delete", "describe"):
        ran = cli("topic", action, "not-there")
        assert ran.code == 1
        assert "not-there" in ran.err
    assert cli("topic", "delete", "not-there", "--if-exists").code == 0


def test_a_bad_value_is_named(cli, topic):
    ran = cli("topic", "alter", topic, "-c", "retention.ms=soon")
    assert ran.code == 1
    assert "retention.ms='soon'" in ran.err
    assert cli("topic", "alter", topic, "-c", "retention.ms").code == 2
    assert cli("topic", "alter", topic).code == 2


def test_trim_by_offset_and_by_time(cli, topic):
    cli("produce", topic, stdin=b"a\nb\nc\nd\n").ok()
    assert cli("topic", "trim", topic, "--offset", 2).ok().lines[-1].split() == [topic, "0", "2"]
    assert cli("topic", "trim", topic, "--before", "1d").ok().lines[-1].split() == [topic, "0", "2"]
    assert cli("topic", "trim", topic, "--all").ok().lines[-1].split() == [topic, "0", "4"]
    assert cli("topic", "describe", topic, "--offsets").ok().out.endswith("Begin: 4\tEnd: 4\n")
    assert cli("topic", "trim", topic, "--all", "--partition", 7).code == 2
    assert cli("topic", "trim", topic).code == 2


def test_what_is_done_can_be_told_as_json(cli, unique):
    first, second = unique("a"), unique("b")
    ran = cli("topic", "create", first, second, "-p", 1, "--json")
    assert ran.ok().json == [{"created": first}, {"created": second}]
    ran = cli("topic", "create", unique("c"), first, "--json")
    assert (ran.code, len(ran.json)) == (1, 1)
    assert cli("topic", "alter", first, "-c", "retention.ms=5", "--json").ok().json == [
        {"altered": first}
    ]
    assert cli("topic", "add-partitions", first, "-n", 1, "--json").ok().json == [
        {"topic": first, "partitions": 2}
    ]
    assert cli("topic", "trim", second, "--all", "--json").ok().json == [
        {"topic": second, "partition": 0, "begin": 0}
    ]
    assert cli("topic", "delete", first, second, "--json").ok().json == [
        {"deleted": first},
        {"deleted": second},
    ]


def test_short_names(cli, unique):
    name = unique("topic")
    cli("topic", "create", "-t", name).ok()
    assert name in cli("topic", "ls").ok().lines
    cli("topic", "rm", name).ok()
    assert name not in cli("topic", "list").ok().lines


@pytest.mark.parametrize("words", [("delete",), ("trim", "--all")])
def test_a_person_is_asked_before_everything_is_deleted(broker, cli, topic, words):
    """At a real terminal; scripts are not asked."""
    cli("produce", topic, stdin=b"a\n").ok()

    def typed(answer: bytes, *more: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "tidelog", "topic", words[0], topic, *words[1:], *more]
        os.write(ours, answer)
        try:
            ran = subprocess.run(
                [*command, "-b", broker.bootstrap],
                stdin=theirs,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        finally:
            os.close(theirs)
            os.close(ours)
        return ran.returncode, ran.stderr

    code, said = typed(b"\n")
    assert code == 2
    assert re.search(rf"Delete .*topic {topic}.*\? \[y/N\] .*nothing was deleted", said, re.DOTALL)
    assert cli("consume", topic).ok().lines == ["a"]
    assert typed(b"y\n")[0] == 0
    assert cli("consume", topic).lines == []
