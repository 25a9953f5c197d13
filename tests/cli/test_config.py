"""`tidelog config`: settings of topics and brokers."""


def test_a_topics_settings(cli, topic):
    cli("config", "set", "--topic", topic, "retention.ms=1234").ok()
    assert cli("config", "get", "--topic", topic, "retention.ms").ok().out == "1234\n"
    (line,) = cli("config", "describe", "--topic", topic).ok().lines[1:]
    assert line.split() == ["retention.ms", "1234"]
    cli("config", "set", "--topic", topic, "--unset", "retention.ms").ok()
    assert cli("config", "describe", "--topic", topic, "--json").ok().json == []


def test_kafkas_way_to_name_them(cli, topic):
    names = ["--entity-type", "topics", "--entity-name", topic]
    said = cli("config", "get", *names, "cleanup.policy", "--json").ok().json
    assert said == {"cleanup.policy": "delete"}


def test_a_brokers_settings(cli):
    described = cli("config", "describe", "--all", "--json").ok().json
    assert {each["name"] for each in described} >= {"listeners", "num.partitions"}
    assert cli("config", "get", "--broker", 0, "num.partitions").ok().out == "1\n"


def test_a_dry_run_checks_and_changes_nothing(cli, topic):
    cli("config", "set", "--topic", topic, "retention.ms=5", "--dry-run").ok()
    assert cli("config", "describe", "--topic", topic, "--json").ok().json == []
    assert cli("config", "set", "--topic", topic, "retention.ms=x", "--dry-run").code == 1


def test_wrong_use(cli, topic):
    assert cli("config", "set", "--topic", topic).code == 2
    assert cli("config", "get", "--topic", topic, "no.such").code == 2
    assert cli("config", "set", "--topic", topic, "--broker", 1, "a=b").code == 2
    ran = cli("config", "describe", "--topic", "not-there")
    assert ran.code == 1
    assert "not-there" in ran.err


def test_the_words_of_kafkas_own_tool(cli, topic):
    where = ("--entity-type", "topics", "--entity-name", topic)
    added = "retention.ms=5,cleanup.policy=[compact,delete]"
    said = cli("config", "set", *where, "--add-config", added, "--json").ok().json
    assert said["set"] == {"retention.ms": "5", "cleanup.policy": "compact,delete"}
    values = cli("config", "get", *where, "retention.ms", "cleanup.policy").ok().lines
    assert values == ["5", "compact,delete"]
    cli("config", "set", *where, "--delete-config", "retention.ms,cleanup.policy").ok()
    assert cli("config", "get", *where, "cleanup.policy").ok().lines == ["delete"]
