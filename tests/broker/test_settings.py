"""Settings: files that load, and complaints that help."""

import pytest

from tidelog.broker import properties
from tidelog.broker.settings import BrokerSettings, declarations
from tidelog.errors import SettingsError


def refused(**given: str) -> str:
    with pytest.raises(SettingsError) as caught:
        BrokerSettings.load({name.replace("_", "."): value for name, value in given.items()})
    return str(caught.value)


def test_everything_wrong_is_told_at_once():
    text = refused(
        num_partitions="many", log_segment_bytes="-5", nmu_partitions="1", listeners="nowhere"
    )
    for part in (
        "num.partitions='many'",
        "log.segment.bytes='-5'",
        "nmu.partitions",
        "num.partitions?",
    ):
        assert part in text


def test_a_bad_listener_is_told_with_an_example():
    assert "PLAINTEXT://host:9092" in refused(listeners="PLAINTEXT://host")
    assert "SASL_SSL" in refused(listeners="QUIC://host:9092")


def test_a_broker_properties_file_of_kafka_loads():
    text = """
    # The address the socket server listens on.
    process.roles=broker,controller
    node.id=1
    controller.quorum.voters=1@localhost:9093
    listeners=PLAINTEXT://:9092,CONTROLLER://:9093
    inter.broker.listener.name=PLAINTEXT
    advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
    controller.listener.names=CONTROLLER
    listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
    num.network.threads=3
    num.io.threads=8
    socket.send.buffer.bytes=102400
    log.dirs=/tmp/logs
    num.partitions=3
    offsets.topic.replication.factor=1
    transaction.state.log.min.isr=1
    log.retention.hours=168
    log.retention.check.interval.ms=300000
    """
    settings = BrokerSettings.load(properties.parse(text))
    assert settings.broker.broker_id == 1
    assert [each.port for each in settings.listeners()] == [9092]
    assert settings.broker.num_partitions == 3
    assert "num.io.threads" in settings.unused
    assert "log.retention.hours" not in settings.unused


def test_a_properties_file_of_kafka_0_8_loads():
    given = {"broker.id": "2", "port": "9192", "log.dir": "/tmp/x", "zookeeper.connect": "a:2181"}
    settings = BrokerSettings.load(given)
    assert settings.broker.broker_id == 2
    assert settings.listeners()[0].port == 9192
    assert settings.broker.log_dirs == ("/tmp/x",)
    assert settings.unused == ("zookeeper.connect",)


def test_the_finer_unit_wins():
    given = {"log.retention.hours": "1", "log.retention.ms": "5"}
    assert BrokerSettings.load(given).log.retention_ms == 5
    assert BrokerSettings.load({"log.retention.hours": "2"}).log.retention_ms == 7_200_000


def test_dynamic_settings_go_over_the_static_ones():
    settings = BrokerSettings.load({"log.retention.ms": "5", "num.partitions": "2"})
    changed = settings.changed({"log.retention.ms": "6"}, {"log.retention.ms": "7"})
    assert changed.log.retention_ms == 7
    assert changed.broker.num_partitions == 2
    assert changed.properties == settings.properties


def test_no_name_is_declared_twice():
    names = [
        name for _, each in declarations().values() for name in (each.spec.name, *each.spec.also)
    ]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": "b"}),
        (" a = b c ", {"a": "b c"}),
        ("a:b\na b", {"a": "b"}),
        ("# no\n! no\n\na=1", {"a": "1"}),
        ("a=1\\\n   2", {"a": "12"}),
        ("a=C\\:\\\\x", {"a": "C:\\x"}),
        ("a=\\u00e9", {"a": "é"}),
        ("a", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_properties(text: str, found: dict[str, str]):
    assert properties.parse(text) == found
