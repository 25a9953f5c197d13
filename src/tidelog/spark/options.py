"""The options of the source and the sink, under the names that Spark's own Kafka connector has for them.

    options = source_options({"kafka.bootstrap.servers": "h:9092", "subscribe": "clicks"}, streaming=False)

Names may be written in any case, as everywhere in Spark.  What is not an option is refused, with the one that was
probably meant; so is what a batch query or a stream has no use for.  `kafka.*` are the settings of our clients; those that
the source decides by itself are refused.

Ours alone: `groupId` (a group that is told the end of each finished micro-batch), `initialOffsetsLocation` (a file that
remembers where a stream began), and for the sink `sinkId` and `batchId` (for `foreachBatch`).

Absent: `kafkaConsumer.pollTimeoutMs`, `fetchOffset.*`, `groupIdPrefix` and the like are taken and do nothing; our client has
`kafka.default.api.timeout.ms` and `kafka.retry.backoff.ms`.
"""

import difflib
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tidelog.client.settings import ClientSettings, ConsumerSettings, ProducerSettings, load
from tidelog.client.times import parse_time
from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError
from tidelog.names import TopicPartition
from tidelog.settings import names_of

EARLIEST, LATEST = -2, -1
"""What stands for the two ends of a partition, in JSON too."""

PLAN = ("subscribe", "subscribePattern", "assign")
_READ = (
    *PLAN,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
)
_BATCH = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_STREAM = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "groupId",
    "initialOffsetsLocation",
)
_WRITE = ("topic", "includeHeaders", "sinkId", "batchId")
_IDLE = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
    "path",
    "checkpointLocation",
    "queryName",
)
_WITHDRAWN = {
    "pushdown": "Spark applies the filters of a frame's first use to all later ones; assign, startingOffsets, endingOffsets, "
    "startingTimestamp and endingTimestamp say what to read",
}
_DECIDED = {
    "auto.offset.reset": "startingOffsets says where to begin",
    "enable.auto.commit": "groupId publishes offsets",
    "key.deserializer": "keys are binary",
    "value.deserializer": "values are binary",
    "key.serializer": "keys are binary or string",
    "value.serializer": "values are binary or string",
    "interceptor.classes": "there are none",
    "transactional.id": "the sink has its own",
}


@dataclass(frozen=True, slots=True)
class Position:
    """Where to begin or to end: an offset, or -2 or -1, for everything or for each partition; or times in ms."""

    everywhere: int | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    time_ms: int | None = None
    times_ms: Mapping[TopicPartition, int] = field(default_factory=dict)

    def at(self, tp: TopicPartition) -> int | None:
        """The offset, or -2 or -1, of a partition; None where a time says it."""
        return self.offsets.get(tp) if self.everywhere is None else self.everywhere


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What is read, and how; checked."""

    kafka: Mapping[str, str]
    subscribe: tuple[str, ...] = ()
    pattern: str = ""
    assign: tuple[TopicPartition, ...] = ()
    starting: Position = Position(EARLIEST)
    ending: Position = Position(LATEST)
    time_missing_is_latest: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int = 0
    max_records_per_partition: int = 0
    include_headers: bool = False
    max_offsets: int = 0
    min_offsets: int = 0
    max_delay_ms: int = 15 * 60_000
    group_id: str = ""
    initial_location: str = ""

    @property
    def committed_only(self) -> bool:
        return self.kafka.get("isolation.level") == "read_committed"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where rows are written to; checked."""

    kafka: Mapping[str, str]
    topic: str = ""
    sink_id: str = ""
    batch_id: int = 0


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """The options of a read; SettingsError names the one that is wrong."""
    known = (*_READ, *(_STREAM if streaming else _BATCH))
    kind = "a stream" if streaming else "a batch query"
    found = _known(given, known, (*_READ, *_BATCH, *_STREAM), f"of {kind}")
    plans = [name for name in PLAN if name in found]
    if len(plans) != 1:
        said = " and ".join(plans) or "none"
        raise SettingsError(f"one of subscribe, subscribePattern and assign is needed, not {said}")
    if "startingoffsets" not in map(str.lower, given) and streaming:
        found.setdefault("startingOffsets", "latest")
    starting = _position(found, "starting", EARLIEST)
    ending = _position(found, "ending", LATEST)
    if not streaming and LATEST in (starting.everywhere, *starting.offsets.values()):
        raise SettingsError("startingOffsets=latest is for streams; a batch query would be empty")
    if EARLIEST in (ending.everywhere, *ending.offsets.values()):
        raise SettingsError("endingOffsets=earliest (-2) would make the query empty")
    return SourceOptions(
        kafka=_kafka(given, ConsumerSettings),
        subscribe=_names(found.get("subscribe", "")),
        pattern=found.get("subscribePattern", ""),
        assign=_assigned(found.get("assign", "")),
        starting=starting,
        ending=ending,
        time_missing_is_latest=_one_of(
            found, "startingOffsetsByTimestampStrategy", ("error", "latest")
        )
        == "latest",
        fail_on_data_loss=_flag(found, "failOnDataLoss", True),
        min_partitions=_count(found, "minPartitions"),
        max_records_per_partition=_count(found, "maxRecordsPerPartition"),
        include_headers=_flag(found, "includeHeaders", False),
        max_offsets=_count(found, "maxOffsetsPerTrigger"),
        min_offsets=_count(found, "minOffsetsPerTrigger"),
        max_delay_ms=_duration_ms(found.get("maxTriggerDelay", "15m")),
        group_id=found.get("groupId", ""),
        initial_location=found.get("initialOffsetsLocation", ""),
    )


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of a write; SettingsError names the one that is wrong."""
    found = _known(given, _WRITE, (*_WRITE, *_READ, *_BATCH, *_STREAM), "of the sink")
    if "batchId" in found and not found.get("sinkId"):
        raise SettingsError("batchId needs sinkId: the name under which batches are written once")
    batch_id = _number("batchId", found.get("batchId", "0"))
    return SinkOptions(
        _kafka(given, ProducerSettings), found.get("topic", ""), found.get("sinkId", ""), batch_id
    )


def for_admin(kafka: Mapping[str, str]) -> dict[str, str]:
    """The settings that every client has."""
    known = set(names_of(ClientSettings))
    return {name: value for name, value in kafka.items() if name in known}


def wants_headers(given: Mapping[str, str]) -> bool:
    """Whether the schema has the column `headers`; this is asked before the options are checked."""
    lowered = {name.lower(): value for name, value in given.items()}
    return lowered.get("includeheaders", "").lower() == "true"


def _known(
    given: Mapping[str, str], mine: tuple[str, ...], all_names: tuple[str, ...], where: str
) -> dict[str, str]:
    """What was given, under the names as we write them."""
    spelled = {name.lower(): name for name in (*mine, *_IDLE)}
    elsewhere = {name.lower(): name for name in all_names}
    found: dict[str, str] = {}
    for name, value in given.items():
        lowered = name.lower()
        if lowered.startswith("kafka."):
            continue
        if lowered in _WITHDRAWN:
            raise SettingsError(f"{name} is not an option any more: {_WITHDRAWN[lowered]}")
        if lowered in spelled:
            found[spelled[lowered]] = value
        elif lowered in elsewhere:
            raise SettingsError(f"{elsewhere[lowered]} is not an option {where}")
        else:
            close = difflib.get_close_matches(lowered, [*spelled, "kafka.bootstrap.servers"], 1)
            meant = f"; {spelled.get(close[0], close[0])} is" if close else ""
            raise SettingsError(f"{name} is not an option {where}{meant}")
    return found


def _kafka(given: Mapping[str, str], settings: type[ClientSettings]) -> dict[str, str]:
    """The client's settings, checked as the client would, so that it is told before a job starts."""
    kafka = {
        name[len("kafka.") :].lower(): value
        for name, value in given.items()
        if name.lower().startswith("kafka.")
    }
    for name, why in _DECIDED.items():
        if name in kafka:
            raise SettingsError(f"kafka.{name} cannot be set: {why}")
    if not kafka.get("bootstrap.servers"):
        raise SettingsError("kafka.bootstrap.servers is missing: host:port of some brokers")
    try:
        load(settings, kafka, {})
    except SettingsError as error:
        raise SettingsError(f"kafka.{error}") from None
    return kafka


def _position(found: Mapping[str, str], side: str, default: int) -> Position:
    """Where to begin or end; a time for all goes before times, and these before offsets."""
    if text := found.get(f"{side}Timestamp"):
        return Position(time_ms=_number(f"{side}Timestamp", text))
    if text := found.get(f"{side}OffsetsByTimestamp"):
        return Position(times_ms=_by_partition(f"{side}OffsetsByTimestamp", text))
    text = found.get(f"{side}Offsets", "").strip()
    if not text:
        return Position(default)
    if text.lower() in ("earliest", "latest"):
        return Position(EARLIEST if text.lower() == "earliest" else LATEST)
    return Position(offsets=_by_partition(f"{side}Offsets", text))


def _by_partition(name: str, text: str) -> dict[TopicPartition, int]:
    shape = f'{name} must be JSON as {{"clicks": {{"0": 23, "1": -2}}}}, not {text!r}'
    parsed = _json(text, shape)
    found: dict[TopicPartition, int] = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, dict):
            raise SettingsError(shape)
        for partition, number in partitions.items():
            if not str(partition).isdigit() or type(number) is not int or number < EARLIEST:
                raise SettingsError(shape)
            found[TopicPartition(topic, int(partition))] = number
    return found


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    if not text:
        return ()
    shape = f'assign must be JSON as {{"clicks": [0, 1]}}, not {text!r}'
    found: list[TopicPartition] = []
    for topic, partitions in _json(text, shape).items():
        if not isinstance(partitions, list) or any(type(each) is not int for each in partitions):
            raise SettingsError(shape)
        found += [TopicPartition(topic, each) for each in partitions]
    return tuple(found)


def _json(text: str, shape: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        raise SettingsError(shape) from None
    if not isinstance(parsed, dict):
        raise SettingsError(shape)
    return parsed


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _flag(found: Mapping[str, str], name: str, default: bool) -> bool:
    text = found.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise SettingsError(f"{name}={found[name]} must be true or false")
    return text == "true"


def _one_of(found: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    text = found.get(name, allowed[0]).strip().lower()
    if text not in allowed:
        raise SettingsError(f"{name}={found[name]} must be {' or '.join(allowed)}")
    return text


def _count(found: Mapping[str, str], name: str) -> int:
    """A number of one or more; 0 where it is not given."""
    if name not in found:
        return 0
    number = _number(name, found[name])
    if number < 1:
        raise SettingsError(f"{name}={number} must be 1 or more")
    return number


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SettingsError(f"{name}={text} must be a number") from None


def _duration_ms(text: str) -> int:
    try:
        return -parse_time(text.replace(" ", ""), 0)
    except SettingsError:
        raise SettingsError(f"maxTriggerDelay={text} must be a time as 30s, 15m or 1h") from None
