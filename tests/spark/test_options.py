"""Options: what is wrong is named, with what was meant."""

import pytest

from tidelog.errors import SettingsError
from tidelog.names import TopicPartition
from tidelog.spark.options import LATEST, sink_options, source_options
from tidelog.spark.sessions import _shuffles

GIVEN = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}


def test_names_may_be_written_in_any_case() -> None:
    options = source_options(
        {"KAFKA.bootstrap.servers": "h:9092", "SUBSCRIBE": "a, b", "includeheaders": "TRUE"},
        streaming=False,
    )
    assert options.subscribe == ("a", "b")
    assert options.include_headers


def test_a_stream_begins_at_the_end_unless_told() -> None:
    assert source_options(GIVEN, streaming=True).starting.everywhere == LATEST


def test_offsets_for_each_partition() -> None:
    options = source_options(
        {**GIVEN, "startingOffsets": '{"t": {"0": 23, "1": -2}}'}, streaming=True
    )
    assert options.starting.offsets == {TopicPartition("t", 0): 23, TopicPartition("t", 1): -2}


@pytest.mark.parametrize(
    ("more", "streaming", "message"),
    [
        ({"startingOffset": "earliest"}, False, "startingOffset is not.*; startingOffsets is"),
        ({"maxOffsetsPerTrigger": "5"}, False, "maxOffsetsPerTrigger is not an option of a batch"),
        ({"endingOffsets": "latest"}, True, "endingOffsets is not an option of a stream"),
        ({"assign": '{"t": [0]}'}, False, "one of subscribe.*not subscribe and assign"),
        ({"startingOffsets": "latest"}, False, "startingOffsets=latest"),
        ({"startingOffsets": "{"}, False, "startingOffsets must be JSON"),
        ({"startingOffsets": '{"t": {"x": 1}}'}, False, "startingOffsets must be JSON"),
        ({"endingOffsets": "earliest"}, False, "endingOffsets=earliest"),
        ({"failOnDataLoss": "perhaps"}, False, "failOnDataLoss=perhaps"),
        ({"minPartitions": "0"}, False, "minPartitions=0"),
        ({"kafka.auto.offset.reset": "latest"}, False, "kafka.auto.offset.reset cannot be set"),
        ({"kafka.fetch.max.byte": "1"}, False, "kafka.fetch.max.byte is not.*fetch.max.bytes is"),
        ({"kafka.bootstrap.servers": ""}, False, "kafka.bootstrap.servers is missing"),
        ({"maxTriggerDelay": "soon"}, True, "maxTriggerDelay=soon"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, str], streaming: bool, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        source_options({**GIVEN, **more}, streaming=streaming)


def test_the_sinks_options() -> None:
    assert sink_options({"kafka.bootstrap.servers": "h:1", "topic": "t"}).topic == "t"
    with pytest.raises(SettingsError, match="batchId needs sinkId"):
        sink_options({"kafka.bootstrap.servers": "h:1", "topic": "t", "batchId": "1"})
    with pytest.raises(SettingsError, match="subscribe is not an option of the sink"):
        sink_options(GIVEN)
    with pytest.raises(SettingsError, match=r"kafka.linger.m is not.*linger.ms is"):
        sink_options({"kafka.bootstrap.servers": "h:1", "kafka.linger.m": "5"})


@pytest.mark.parametrize(
    ("master", "count"),
    [
        ("local", "2"),
        ("local[8]", "8"),
        ("local[3,2]", "3"),
        ("spark://h:7077", None),
        (None, None),
    ],
)
def test_a_session_on_one_machine_has_few_shuffle_partitions(
    master: str | None, count: str | None
) -> None:
    assert _shuffles(master).get("spark.sql.shuffle.partitions") == count
    assert int(_shuffles("local[*]")["spark.sql.shuffle.partitions"]) >= 2
