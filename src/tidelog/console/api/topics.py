"""Topics: list, create, look at, change, delete."""

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from tidelog.client.admin import TopicDescription
from tidelog.console.api.asking import (
    Asks,
    Confirmed,
    MayWrite,
    TopicName,
    confirm,
    router,
)
from tidelog.console.api.settings import (
    Changed,
    Changes,
    SettingName,
    SettingText,
    SettingView,
    views,
)
from tidelog.console.reading import offsets
from tidelog.console.sampler import is_led, partitions_of
from tidelog.dataclass import dataclass
from tidelog.errors import KafkaError
from tidelog.names import TopicPartition

ROUTER = router("topics")

_LATEST, _EARLIEST = -1, -2
_MOST_PARTITIONS = 10_000


@dataclass(frozen=True, slots=True)
class TopicRow:
    name: str
    is_internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    messages: int | None
    """Offsets between begin and end; null where a leader is missing."""
    size: int | None
    messages_per_second: float | None
    bytes_per_second: float | None


@dataclass(frozen=True, slots=True)
class PartitionView:
    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]
    begin: int | None
    end: int | None
    size: int | None


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    id: str
    is_internal: bool
    partitions: list[PartitionView]
    settings: list[SettingView]
    """Those that differ from the defaults."""


class NewTopic(BaseModel):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
    partitions: Annotated[int, Field(ge=-1, le=_MOST_PARTITIONS)] = -1
    """-1 leaves it to the broker."""
    replication_factor: Annotated[int, Field(ge=-1, le=100)] = -1
    settings: Annotated[dict[SettingName, SettingText], Field(max_length=100)] = Field(
        default_factory=dict
    )
    dry_run: bool = False


class MorePartitions(BaseModel):
    total: Annotated[int, Field(ge=1, le=_MOST_PARTITIONS)]


@dataclass(frozen=True, slots=True)
class Named:
    name: str
    dry_run: bool = False


@ROUTER.get("/topics")
async def list_topics(
    clients: Asks,
    internal: bool = False,
    q: Annotated[str, Query(max_length=249, description="a part of the name")] = "",
    limit: Annotated[int, Query(ge=1, le=5000)] = 1000,
) -> list[TopicRow]:
    """Topics by name."""
    admin = clients.admin
    names = [each for each in await admin.list_topics(internal=internal) if q in each][:limit]
    described = await admin.describe_topics(names) if names else {}
    topics = [described[name] for name in names if name in described]
    led = partitions_of(each for each in topics if is_led(each))
    begins = await offsets(admin, led, _EARLIEST)
    ends = await offsets(admin, led, _LATEST)
    sizes = await clients.sampler.sizes()
    rates = clients.sampler.rates()
    return [_row(each, begins, ends, sizes, rates) for each in topics]


@ROUTER.post("/topics", status_code=201, dependencies=[MayWrite])
async def create_topic(body: NewTopic, clients: Asks) -> Named:
    """Create a topic."""
    await clients.admin.create_topics(
        {body.name: body.partitions},
        replication_factor=body.replication_factor,
        configs=body.settings,
        validate_only=body.dry_run,
    )
    return Named(body.name, body.dry_run)


@ROUTER.get("/topics/{topic}")
async def describe_topic(topic: TopicName, clients: Asks) -> TopicView:
    """One topic with its partitions."""
    admin = clients.admin
    found = (await admin.describe_topics([topic]))[topic]
    places = partitions_of([found]) if is_led(found) else []
    begins = await offsets(admin, places, _EARLIEST)
    ends = await offsets(admin, places, _LATEST)
    sizes = await clients.sampler.sizes()
    configs = await _configs(clients, topic)
    partitions = []
    for each in found.partitions:
        tp = TopicPartition(topic, each.partition)
        partitions.append(
            PartitionView(
                each.partition,
                each.leader,
                list(each.replicas),
                list(each.isr),
                begins.get(tp),
                ends.get(tp),
                sizes.get(tp),
            )
        )
    return TopicView(found.name, str(found.id), found.is_internal, partitions, configs)


@ROUTER.delete("/topics/{topic}", dependencies=[MayWrite])
async def delete_topic(topic: TopicName, confirmed: Confirmed, clients: Asks) -> Named:
    """Delete a topic with all its messages."""
    confirm(topic, confirmed)
    await clients.admin.delete_topics([topic])
    return Named(topic)


@ROUTER.post("/topics/{topic}/partitions", dependencies=[MayWrite])
async def add_partitions(topic: TopicName, body: MorePartitions, clients: Asks) -> Named:
    """Give a topic more partitions, so many in all."""
    await clients.admin.add_partitions(topic, body.total)
    return Named(topic)


@ROUTER.get("/topics/{topic}/settings")
async def topic_settings(topic: TopicName, clients: Asks) -> list[SettingView]:
    """All settings of a topic."""
    return views((await clients.admin.describe_topic_configs(topic)).values())


@ROUTER.patch("/topics/{topic}/settings", dependencies=[MayWrite])
async def alter_topic_settings(topic: TopicName, body: Changes, clients: Asks) -> Changed:
    """Change settings of a topic."""
    await clients.admin.alter_topic_configs(topic, body.changes, validate_only=body.dry_run)
    return Changed(sorted(body.changes), body.dry_run)


async def _configs(clients: Asks, topic: str) -> list[SettingView]:
    try:
        entries = (await clients.admin.describe_topic_configs(topic)).values()
    except KafkaError:
        return []  # to describe a topic and to describe its settings are two permissions
    return views(each for each in entries if not each.is_default)


def _row(
    topic: TopicDescription,
    begins: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    sizes: dict[TopicPartition, int],
    rates: dict[str, tuple[float, float]],
) -> TopicRow:
    places = partitions_of([topic])
    known = all(tp in ends for tp in places)
    rate = rates.get(topic.name)
    return TopicRow(
        topic.name,
        topic.is_internal,
        len(places),
        max((len(each.replicas) for each in topic.partitions), default=0),
        sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
        sum(ends[tp] - begins[tp] for tp in places) if known else None,
        sum(sizes.get(tp, 0) for tp in places) if sizes else None,
        rate[0] if rate else None,
        rate[1] if rate else None,
    )
