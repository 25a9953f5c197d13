"""The cluster as a whole: brokers and their settings, what is not in order, and how much comes in."""

from typing import Annotated

from fastapi import Path, Query

from tidelog.client.admin import TopicDescription
from tidelog.client.admin_replicas import LogDirDescription
from tidelog.console.api.asking import INT32, Asks, MayWrite, router
from tidelog.console.api.settings import Changed, Changes, SettingView, views
from tidelog.console.errors import not_found
from tidelog.console.sampler import Series
from tidelog.dataclass import dataclass
from tidelog.errors import ClusterAuthorizationFailed

ROUTER = router("cluster")

_LISTED = 200


@dataclass(frozen=True, slots=True)
class BrokerView:
    id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool
    leads: int
    replicas: int
    size: int | None
    """Bytes of its logs; null where the user may not know."""
    usable_bytes: int | None
    total_bytes: int | None


@dataclass(frozen=True, slots=True)
class PartitionState:
    topic: str
    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]


@dataclass(frozen=True, slots=True)
class Overview:
    cluster_id: str | None
    controller: int
    brokers: list[BrokerView]
    topics: int
    partitions: int
    groups: int
    under_replicated: list[PartitionState]
    """At most 200, and so are those without a leader."""
    under_replicated_count: int
    leaderless: list[PartitionState]
    leaderless_count: int
    messages_per_second: float
    bytes_per_second: float
    problem: str | None
    """Why there are no rates."""


@ROUTER.get("/overview")
async def overview(clients: Asks) -> Overview:
    """Brokers, counts and what is not in order."""
    admin = clients.admin
    cluster = await admin.describe_cluster()
    topics = list((await admin.describe_topics(await admin.list_topics(internal=True))).values())
    states = [
        PartitionState(topic.name, each.partition, each.leader, list(each.replicas), list(each.isr))
        for topic in topics
        for each in topic.partitions
    ]
    try:
        directories = await admin.describe_log_dirs()
    except ClusterAuthorizationFailed:
        directories = {}
    behind = [each for each in states if len(each.isr) < len(each.replicas)]
    leaderless = [each for each in states if each.leader < 0]
    rates = clients.sampler.rates().values()
    return Overview(
        cluster.id,
        cluster.controller,
        [
            BrokerView(
                each.id,
                each.host,
                each.port,
                each.rack,
                each.id == cluster.controller,
                sum(state.leader == each.id for state in states),
                sum(each.id in state.replicas for state in states),
                *_room(directories.get(each.id)),
            )
            for each in cluster.brokers
        ],
        sum(not each.is_internal for each in topics),
        _partitions(topics),
        len(await admin.list_groups()),
        behind[:_LISTED],
        len(behind),
        leaderless[:_LISTED],
        len(leaderless),
        round(sum(each[0] for each in rates), 2),
        round(sum(each[1] for each in rates), 1),
        clients.sampler.problem,
    )


@ROUTER.get("/rates")
async def rates(
    clients: Asks, topic: Annotated[str | None, Query(max_length=249)] = None
) -> Series:
    """What came in during the last quarter of an hour, as this console has seen it; of one topic, or of all."""
    return clients.sampler.series(topic)


BrokerId = Annotated[int, Path(ge=0, le=INT32)]


@ROUTER.get("/brokers/{broker}/settings")
async def broker_settings(broker: BrokerId, clients: Asks) -> list[SettingView]:
    """All settings of a broker; secrets have no value."""
    await _check(clients, broker)
    return views((await clients.admin.describe_broker_configs(broker)).values())


@ROUTER.patch("/brokers/{broker}/settings", dependencies=[MayWrite])
async def alter_broker_settings(broker: BrokerId, body: Changes, clients: Asks) -> Changed:
    """Change settings of one broker while it runs."""
    await _check(clients, broker)
    await clients.admin.alter_broker_configs(broker, body.changes, validate_only=body.dry_run)
    return Changed(sorted(body.changes), body.dry_run)


@ROUTER.patch("/brokers/settings", dependencies=[MayWrite])
async def alter_settings_of_all(body: Changes, clients: Asks) -> Changed:
    """Change settings of all brokers while they run."""
    await clients.admin.alter_broker_configs(None, body.changes, validate_only=body.dry_run)
    return Changed(sorted(body.changes), body.dry_run)


async def _check(clients: Asks, broker: int) -> None:
    known = [each.id for each in (await clients.admin.describe_cluster()).brokers]
    if broker not in known:
        raise not_found(f"there is no broker {broker}; there are {', '.join(map(str, known))}")


def _room(directories: list[LogDirDescription] | None) -> tuple[int | None, int | None, int | None]:
    if directories is None:
        return None, None, None
    size = sum(replica.size for each in directories for replica in each.replicas.values())
    usable = [each.usable_bytes for each in directories if each.usable_bytes >= 0]
    total = [each.total_bytes for each in directories if each.total_bytes >= 0]
    return size, sum(usable) if usable else None, sum(total) if total else None


def _partitions(topics: list[TopicDescription]) -> int:
    return sum(len(each.partitions) for each in topics)
