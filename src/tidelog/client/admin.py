"""Administration: topics, configs, records and the cluster here; groups, transactions, replicas and security beside it.

    with Admin(bootstrap_servers="localhost:9092") as admin:
        admin.create_topics({"orders": 12}, configs={"retention.ms": "3600000"})

What fails for one item raises that item's error, with its name; what fails for a passing reason is tried again.
Absent: delegation tokens, features, moving replicas between a broker's directories.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Unpack, cast
from uuid import UUID

from tidelog.client.admin_replicas import AsyncReplicaAdmin
from tidelog.client.admin_security import AsyncSecurityAdmin
from tidelog.client.admin_transactions import AsyncTransactionAdmin
from tidelog.client.background import Blocking, blocking
from tidelog.client.cluster import Cluster, UnknownTopic
from tidelog.client.groups import AsyncGroups
from tidelog.client.habits import answering
from tidelog.client.keywords import Keywords
from tidelog.client.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FoundOffset,
    find_offsets,
)
from tidelog.client.options import ClientOptions
from tidelog.client.settings import ClientSettings, load
from tidelog.dataclass import dataclass
from tidelog.errors import KafkaError, LeaderNotAvailable, UnknownTopicOrPartition, error_of
from tidelog.names import TopicPartition, names_in
from tidelog.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tidelog.protocol.schema import Request, Response

_TOPIC, _BROKER, _BROKER_LOGGER = 2, 4, 8
_SET, _DELETE = 0, 1
_OWN = 1
"""The source of a setting that was given to the topic itself (ConfigEntry.ConfigSource)."""


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition: who leads it, who has it, who has all of it."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic and its partitions in order."""

    name: str
    id: UUID
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a topic or broker; the value is None where it is secret."""

    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    is_own: bool = False
    """Whether it was set for this very topic, rather than by its broker."""


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """One broker and its address."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster: its id, its controller, its brokers."""

    id: str | None
    controller: int
    brokers: tuple[BrokerDescription, ...]


@answering
class AsyncAdmin(AsyncGroups, AsyncTransactionAdmin, AsyncReplicaAdmin, AsyncSecurityAdmin):
    """Administration on the running loop; its methods are awaited.

        async with Admin(bootstrap_servers="localhost:9092") as admin:
            await admin.create_topics({"orders": 12}, configs={"retention.ms": "3600000"})

    It takes the options that all clients have: `help(tidelog.client.options.ClientOptions)` lists them.
    """

    __signature__ = Keywords(ClientSettings)

    def __init__(
        self, config: Mapping[str, Any] | None = None, **options: Unpack[ClientOptions]
    ) -> None:
        self.settings = load(ClientSettings, config, options)
        super().__init__(Cluster(self.settings))

    # Topics.

    async def create_topics(
        self,
        topics: Mapping[str, int] | Iterable[str],
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create topics, given with their number of partitions or by name alone; -1 leaves a number to the broker."""
        counts = (
            dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(names_in(topics), -1)
        )
        wanted = [
            CreatableTopic(
                name=name,
                num_partitions=count,
                replication_factor=replication_factor,
                configs=[
                    CreatableTopicConfig(name=key, value=value)
                    for key, value in (configs or {}).items()
                ],
            )
            for name, count in counts.items()
        ]
        request = CreateTopicsRequest(
            topics=wanted, timeout_ms=self.settings.request_timeout_ms, validate_only=validate_only
        )

        def check(response: Response) -> None:
            for each in cast(CreateTopicsResponse, response).topics:
                _raise(each.error_code, f"topic {each.name!r}", each.error_message)

        await self._at_controller(request, check)

    async def delete_topics(self, topics: Iterable[str]) -> None:
        """Delete topics with all their records."""
        names = names_in(topics)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names],
            topic_names=names,
            timeout_ms=self.settings.request_timeout_ms,
        )

        def check(response: Response) -> None:
            for each in cast(DeleteTopicsResponse, response).responses:
                _raise(each.error_code, f"topic {each.name!r}", each.error_message)

        await self._at_controller(request, check)
        for name in names:
            self._cluster.topics.pop(name, None)

    async def add_partitions(self, topic: str, total: int) -> None:
        """Give the topic more partitions, `total` in all."""
        wanted = CreatePartitionsTopic(name=topic, count=total, assignments=None)
        request = CreatePartitionsRequest(
            topics=[wanted], timeout_ms=self.settings.request_timeout_ms
        )

        def check(response: Response) -> None:
            for each in cast(CreatePartitionsResponse, response).results:
                _raise(each.error_code, f"topic {each.name!r}", each.error_message)

        await self._at_controller(request, check)
        self._cluster.topics.pop(topic, None)

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, in order."""
        answer = await self._cluster.retrying(lambda: self._cluster.refresh(None))
        return sorted(
            each.name for each in answer.topics if each.name and (internal or not each.is_internal)
        )

    async def describe_topics(self, topics: Iterable[str]) -> dict[str, TopicDescription]:
        """What the metadata say of these topics."""
        names = names_in(topics)
        answer = await self._cluster.retrying(lambda: self._cluster.refresh(names))
        if any(each.error_code == UnknownTopicOrPartition.code for each in answer.topics):
            # It may have been made a moment ago, and the controller knows of it first.
            wanted = [MetadataRequestTopic(name=name) for name in names]
            request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
            known = await self._cluster.retrying(lambda: self._cluster.ask_controller(request))
            answer = cast(MetadataResponse, known)
        found: dict[str, TopicDescription] = {}
        for each in answer.topics:
            _raise(each.error_code, f"topic {each.name!r}", None)
            partitions = tuple(
                PartitionDescription(
                    part.partition_index,
                    part.leader_id,
                    part.leader_epoch,
                    tuple(part.replica_nodes),
                    tuple(part.isr_nodes),
                )
                for part in sorted(each.partitions, key=lambda part: part.partition_index)
            )
            name = each.name or ""
            found[name] = TopicDescription(name, each.topic_id, each.is_internal, partitions)
        return found

    # Configs.

    async def describe_topic_configs(self, topic: str) -> dict[str, ConfigEntry]:
        """All settings of a topic."""
        return await self._describe_configs(_TOPIC, topic)

    async def describe_broker_configs(self, broker: int) -> dict[str, ConfigEntry]:
        """All settings of a broker."""
        return await self._describe_configs(_BROKER, str(broker))

    async def alter_topic_configs(
        self, topic: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set settings of a topic; None takes one back to its default."""
        await self._alter_configs(_TOPIC, topic, changes, validate_only)

    async def alter_broker_configs(
        self, broker: int | None, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set settings of a broker, or with None of all brokers."""
        name = "" if broker is None else str(broker)
        await self._alter_configs(_BROKER, name, changes, validate_only)

    async def describe_loggers(self, broker: int) -> dict[str, ConfigEntry]:
        """The level of each logger of a broker, in Kafka's words: DEBUG, INFO, WARN, ERROR, FATAL."""
        return await self._describe_configs(_BROKER_LOGGER, str(broker))

    async def alter_loggers(
        self, broker: int, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set levels of a broker's loggers, until it is restarted; None lets one have that of the one above it."""
        await self._alter_configs(_BROKER_LOGGER, str(broker), changes, validate_only)

    # Records and the cluster.

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Delete the records before these offsets, -1 for all; returns where each partition now begins."""
        begins: dict[TopicPartition, int] = {}

        async def ask() -> None:
            try:
                await self._delete_records(
                    {tp: before[tp] for tp in before if tp not in begins}, begins
                )
            except KafkaError as error:
                if error.retriable:
                    await self._cluster.refresh({topic for topic, _ in before})
                raise

        await self._cluster.retrying(ask)
        return begins

    async def _delete_records(
        self, before: Mapping[TopicPartition, int], begins: dict[TopicPartition, int]
    ) -> None:
        by_node: dict[int, dict[str, DeleteRecordsTopic]] = {}
        for (topic, partition), offset in before.items():
            node = (await self._cluster.leader(topic, partition)).node
            entry = by_node.setdefault(node, {}).setdefault(topic, DeleteRecordsTopic(name=topic))
            entry.partitions.append(
                DeleteRecordsPartition(partition_index=partition, offset=offset)
            )
        for node, topics in by_node.items():
            request = DeleteRecordsRequest(
                topics=list(topics.values()), timeout_ms=self.settings.request_timeout_ms
            )
            answer = cast(DeleteRecordsResponse, await self._cluster.ask(node, request))
            for done in answer.topics:
                for each in done.partitions:
                    tp = TopicPartition(done.name, each.partition_index)
                    _raise(each.error_code, f"records of {tp}", None)
                    begins[tp] = each.low_watermark

    async def list_offsets(
        self,
        partitions: Mapping[TopicPartition, int],
        *,
        committed: bool = False,
        led: bool = False,
    ) -> dict[TopicPartition, FoundOffset]:
        """The first offset at or after a time in ms for each; -1 is the end, -2 the beginning.

        For those who read only what is `committed`, the end is before the first open transaction.  With `led`, partitions
        without a leader are left out instead of waited for.
        """
        if led:
            partitions = {tp: partitions[tp] for tp in await self._led(partitions)}
        isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
        return await find_offsets(self._cluster, partitions, isolation)

    async def _led(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        found: list[TopicPartition] = []
        for tp in partitions:
            with suppress(LeaderNotAvailable):
                await self._cluster.leader(*tp)
                found.append(tp)
        return found

    async def watermarks(
        self, topic: str, *, led: bool = False
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Where each partition of the topic begins and ends; with `led` only of those that have a leader."""
        self._cluster.topics.pop(topic, None)  # others may have given it more
        info = await self._cluster.topic(topic)
        tps = [
            TopicPartition(topic, index)
            for index in (info.candidates.led if led else info.partitions)
        ]
        first = await find_offsets(self._cluster, dict.fromkeys(tps, EARLIEST))
        last = await find_offsets(self._cluster, dict.fromkeys(tps, LATEST))
        return {tp: (first[tp].offset, last[tp].offset) for tp in tps}

    async def describe_cluster(self) -> ClusterDescription:
        """Who there is."""
        cluster = self._cluster
        await cluster.retrying(lambda: cluster.refresh([]))
        brokers = tuple(
            BrokerDescription(node, host, port, cluster.racks.get(node))
            for node, (host, port) in sorted(cluster.nodes.items())
        )
        return ClusterDescription(cluster.cluster_id, cluster.controller, brokers)

    def metrics(self) -> dict[str, float]:
        """What the client has measured of itself, under the names of Kafka's manual."""
        return self._cluster.metrics.read()

    async def finish(self) -> None:
        """Nothing is left open."""

    async def let_go(self) -> None:
        """Close the connections."""
        await self._cluster.close()

    def abandon(self) -> None:
        self._cluster.abandon()

    async def _at_controller(self, request: Request, check: Callable[[Response], None]) -> None:
        async def ask() -> None:
            check(await self._cluster.ask_controller(request))

        await self._cluster.retrying(ask)

    async def _describe_configs(self, kind: int, name: str) -> dict[str, ConfigEntry]:
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        answer = cast(
            DescribeConfigsResponse,
            await self._cluster.retrying(
                self._asks(kind, name, DescribeConfigsRequest(resources=[resource]))
            ),
        )
        result = answer.results[0]
        _raise(result.error_code, f"configs of {name!r}", result.error_message)
        return {
            each.name: ConfigEntry(
                each.name,
                None if each.is_sensitive else each.value,
                each.is_default or each.config_source == 5,  # 5: the default that is built in
                each.read_only,
                each.is_sensitive,
                each.config_source == _OWN,
            )
            for each in result.configs
        }

    async def _alter_configs(
        self, kind: int, name: str, changes: Mapping[str, str | None], validate_only: bool
    ) -> None:
        configs = [
            AlterableConfig(
                name=key, config_operation=_DELETE if value is None else _SET, value=value
            )
            for key, value in changes.items()
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        answer = await self._cluster.retrying(self._asks(kind, name, request))
        for each in cast(IncrementalAlterConfigsResponse, answer).responses:
            _raise(each.error_code, f"configs of {name!r}", each.error_message)

    def _asks(self, kind: int, name: str, request: Request) -> Callable[[], Awaitable[Response]]:
        """A broker's own settings are asked from that broker, the rest from anybody."""

        async def ask() -> Response:
            if kind == _TOPIC or not name:
                return await self._cluster.ask_any(request)
            if int(name) not in self._cluster.nodes:
                await self._cluster.refresh([])
            return await self._cluster.ask(int(name), request)

        return ask


@answering
class Admin(Blocking[AsyncAdmin]):
    """Administration, blocking; every method is its async twin's.

        with Admin(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics({"orders": 12}, configs={"retention.ms": "3600000"})

    It takes the options that all clients have: `help(tidelog.client.options.ClientOptions)` lists them.
    """

    __signature__ = Keywords(ClientSettings)

    def __init__(
        self, config: Mapping[str, Any] | None = None, **options: Unpack[ClientOptions]
    ) -> None:
        super().__init__(lambda: AsyncAdmin(config, **options), "tidelog-admin")

    def metrics(self) -> dict[str, float]:
        """What the client has measured of itself, under the names of Kafka's manual."""
        return self._core.metrics()

    create_topics = blocking(AsyncAdmin.create_topics)
    delete_topics = blocking(AsyncAdmin.delete_topics)
    add_partitions = blocking(AsyncAdmin.add_partitions)
    list_topics = blocking(AsyncAdmin.list_topics)
    describe_topics = blocking(AsyncAdmin.describe_topics)
    describe_topic_configs = blocking(AsyncAdmin.describe_topic_configs)
    describe_broker_configs = blocking(AsyncAdmin.describe_broker_configs)
    alter_topic_configs = blocking(AsyncAdmin.alter_topic_configs)
    alter_broker_configs = blocking(AsyncAdmin.alter_broker_configs)
    describe_loggers = blocking(AsyncAdmin.describe_loggers)
    alter_loggers = blocking(AsyncAdmin.alter_loggers)
    delete_records = blocking(AsyncAdmin.delete_records)
    list_offsets = blocking(AsyncAdmin.list_offsets)
    watermarks = blocking(AsyncAdmin.watermarks)
    describe_cluster = blocking(AsyncAdmin.describe_cluster)
    list_groups = blocking(AsyncAdmin.list_groups)
    describe_groups = blocking(AsyncAdmin.describe_groups)
    delete_groups = blocking(AsyncAdmin.delete_groups)
    group_offsets = blocking(AsyncAdmin.group_offsets)
    alter_group_offsets = blocking(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = blocking(AsyncAdmin.delete_group_offsets)
    remove_members = blocking(AsyncAdmin.remove_members)
    list_transactions = blocking(AsyncAdmin.list_transactions)
    describe_transactions = blocking(AsyncAdmin.describe_transactions)
    describe_producers = blocking(AsyncAdmin.describe_producers)
    fence_producers = blocking(AsyncAdmin.fence_producers)
    find_hanging_transactions = blocking(AsyncAdmin.find_hanging_transactions)
    abort_transaction = blocking(AsyncAdmin.abort_transaction)
    describe_log_dirs = blocking(AsyncAdmin.describe_log_dirs)
    elect_leaders = blocking(AsyncAdmin.elect_leaders)
    reassign = blocking(AsyncAdmin.reassign)
    alter_partition_reassignments = blocking(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = blocking(AsyncAdmin.list_partition_reassignments)
    replica_sizes = blocking(AsyncAdmin.replica_sizes)
    unregister_broker = blocking(AsyncAdmin.unregister_broker)
    create_acls = blocking(AsyncAdmin.create_acls)
    describe_acls = blocking(AsyncAdmin.describe_acls)
    delete_acls = blocking(AsyncAdmin.delete_acls)
    describe_scram_users = blocking(AsyncAdmin.describe_scram_users)
    set_scram_password = blocking(AsyncAdmin.set_scram_password)
    delete_scram_password = blocking(AsyncAdmin.delete_scram_password)
    describe_client_quotas = blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = blocking(AsyncAdmin.alter_client_quotas)


def _raise(code: int, what: str, message: str | None) -> None:
    if code == UnknownTopicOrPartition.code:
        raise UnknownTopic(f"{what}: {message or 'there is no such topic'}")
    if code:
        raise error_of(code, f"{what}: {message or error_of(code).text}")
