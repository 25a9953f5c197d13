"""Settings that are described and changed while the broker runs."""

from uuid import UUID

import pytest

from tidelog.broker.configs import (
    Alteration,
    Change,
    Operation,
    ResourceType,
    Source,
    decide,
    describe,
    in_force,
)
from tidelog.broker.settings import BrokerSettings
from tidelog.cluster.image import BROKER, CLUSTER, MIN_IN_SYNC, TOPIC, Image
from tidelog.cluster.metadata import BrokerRecord, ConfigRecord, PartitionRecord, TopicRecord
from tidelog.errors import (
    InvalidConfig,
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    UnknownTopicOrPartition,
)

SETTINGS = BrokerSettings.load({"log.retention.hours": "1"})
RETENTION = "retention.ms"


def image(*records: ConfigRecord) -> Image:
    topic_id = UUID(int=1)
    made, _ = Image().apply(
        [
            BrokerRecord(0, ()),
            TopicRecord("t", topic_id),
            PartitionRecord(topic_id, 0, (0,), (0,), 0),
            *records,
        ],
        1,
    )
    return made


def alter(
    now: Image,
    *changes: Change,
    name: str = "t",
    kind: int = ResourceType.TOPIC,
    replace: bool = False,
):
    records, (outcome,) = decide(now, SETTINGS, 0, [Alteration(kind, name, changes, replace)])
    if outcome is not None:
        assert not records
        raise outcome
    return now.apply(records, 2)[0]


def test_the_strongest_source_wins():
    now = image(
        ConfigRecord(TOPIC, "t", RETENTION, "1"),
        ConfigRecord(BROKER, "0", "log.retention.ms", "2"),
        ConfigRecord(BROKER, "", "log.retention.ms", "3"),
    )
    found = {each.name: each for each in describe(now, SETTINGS, 0, ResourceType.TOPIC, "t")}
    synonyms = found[RETENTION].synonyms
    assert [(each.value, each.source) for each in synonyms] == [
        ("1", Source.TOPIC),
        ("2", Source.DYNAMIC_BROKER),
        ("3", Source.DYNAMIC_DEFAULT_BROKER),
        ("3600000", Source.STATIC_BROKER),
        ("604800000", Source.DEFAULT),
    ]
    assert found["segment.bytes"].source == Source.DEFAULT
    assert not any(each.read_only for each in found.values())


def test_a_broker_shows_everything_and_what_cannot_change():
    found = {each.name: each for each in describe(image(), SETTINGS, 0, ResourceType.BROKER, "0")}
    assert found["log.retention.ms"].source == Source.STATIC_BROKER
    assert found["log.dirs"].read_only
    assert not found["log.retention.ms"].read_only


def test_all_brokers_show_what_was_set_for_all():
    now = image(ConfigRecord(BROKER, "", "log.retention.ms", "3"))
    (found,) = describe(now, SETTINGS, 0, ResourceType.BROKER, "")
    assert (found.name, found.value) == ("log.retention.ms", "3")
    assert found.source == Source.DYNAMIC_DEFAULT_BROKER


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (ResourceType.TOPIC, "absent", UnknownTopicOrPartition),
        (ResourceType.TOPIC, "a/b", InvalidTopicException),
        (ResourceType.BROKER, "7", InvalidRequest),
        (ResourceType.BROKER, "x", InvalidRequest),
        (ResourceType.GROUP, "g", InvalidRequest),
        (99, "g", InvalidRequest),
    ],
)
def test_what_cannot_be_described(kind: int, name: str, error: type[KafkaError]):
    with pytest.raises(error):
        describe(image(), SETTINGS, 0, kind, name)


def test_lists_are_appended_to_from_the_default():
    policy = "cleanup.policy"
    now = alter(image(), Change(policy, Operation.APPEND, "compact"))
    assert now.topic_config("t") == {policy: "delete,compact"}
    now = alter(now, Change(policy, Operation.APPEND, "compact"))
    assert now.topic_config("t") == {policy: "delete,compact"}
    now = alter(now, Change(policy, Operation.SUBTRACT, "delete"))
    assert now.topic_config("t") == {policy: "compact"}
    now = alter(now, Change(policy, Operation.DELETE, None))
    assert now.topic_config("t") == {}


def test_replacing_takes_back_what_is_not_named():
    now = image(ConfigRecord(TOPIC, "t", RETENTION, "1"))
    now = alter(now, Change("segment.ms", Operation.SET, "5"), replace=True)
    assert now.topic_config("t") == {"segment.ms": "5"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (Change(RETENTION, Operation.SET, "soon"), InvalidConfig),
        (Change(RETENTION, Operation.SET, "-7"), InvalidConfig),
        (Change(RETENTION, Operation.APPEND, "1"), InvalidConfig),
        (Change(RETENTION, Operation.SET, None), InvalidRequest),
        (Change("absent", Operation.SET, "1"), InvalidConfig),
        (Change("cleanup.policy", Operation.SUBTRACT, "delete"), InvalidConfig),
    ],
)
def test_what_cannot_be_changed(change: Change, error: type[KafkaError]):
    with pytest.raises(error):
        alter(image(), change)


def test_a_setting_twice_in_one_request():
    with pytest.raises(InvalidRequest):
        alter(image(), Change(RETENTION, Operation.SET, "1"), Change(RETENTION, Operation.SET, "2"))


def test_a_resource_twice_in_one_request():
    wanted = [Alteration(ResourceType.TOPIC, "t", [])] * 2
    _, outcomes = decide(image(), SETTINGS, 0, wanted)
    assert all(isinstance(each, InvalidRequest) for each in outcomes)


def test_a_broker_changes_only_what_is_dynamic():
    kind = ResourceType.BROKER
    now = alter(image(), Change("log.retention.ms", Operation.SET, "5"), kind=kind, name="0")
    assert now.config((BROKER, "0")) == {"log.retention.ms": "5"}
    with pytest.raises(InvalidRequest):
        alter(image(), Change("log.dirs", Operation.SET, "x"), kind=kind, name="0")
    with pytest.raises(InvalidConfig):
        alter(image(), Change("log.retention.ms", Operation.SET, "x"), kind=kind, name="")


def test_what_all_brokers_share_is_none_of_a_single_broker():
    now = image(
        ConfigRecord(CLUSTER, "", MIN_IN_SYNC, "2"), ConfigRecord(BROKER, "0", MIN_IN_SYNC, "7")
    )
    assert in_force(SETTINGS, now, 0).log.min_insync_replicas == 2
    found = {each.name: each for each in describe(now, SETTINGS, 0, ResourceType.TOPIC, "t")}
    assert [(each.value, each.source) for each in found[MIN_IN_SYNC].synonyms] == [
        ("2", Source.DYNAMIC_DEFAULT_BROKER),
        ("1", Source.DEFAULT),
    ]
    change = Change(MIN_IN_SYNC, Operation.SET, "3")
    with pytest.raises(InvalidConfig, match="holds for all brokers"):
        alter(image(), change, kind=ResourceType.BROKER, name="0")
    now = alter(
        now, Change(MIN_IN_SYNC, Operation.DELETE, None), kind=ResourceType.BROKER, name="0"
    )
    now = alter(now, change, kind=ResourceType.BROKER, name="")
    assert in_force(SETTINGS, now, 0).log.min_insync_replicas == 3


def test_a_value_that_the_file_has_as_well_has_the_files_source():
    settings = BrokerSettings.load({MIN_IN_SYNC: "2"})
    now = image(ConfigRecord(CLUSTER, "", MIN_IN_SYNC, "2"))
    found = {each.name: each for each in describe(now, settings, 0, ResourceType.BROKER, "0")}
    assert found[MIN_IN_SYNC].source == Source.STATIC_BROKER
