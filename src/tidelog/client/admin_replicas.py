"""Replicas from outside: where they lie, moving them to other brokers, and electing who leads."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from tidelog.client.closing import Closing
from tidelog.client.cluster import Cluster
from tidelog.client.settings import ClientSettings
from tidelog.dataclass import dataclass
from tidelog.errors import ElectionNotNeeded, KafkaError, error_of
from tidelog.names import TopicPartition
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tidelog.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from tidelog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from tidelog.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tidelog.protocol.schema import Request

_PREFERRED, _UNCLEAN = 0, 1


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """A replica's bytes, how far it is behind, and whether it is on its way to another directory."""

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A broker's log directory; -1 bytes where it does not say, and an error where it cannot be used."""

    path: str
    error: KafkaError | None
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, ReplicaDescription]


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition on its way to other brokers."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class AsyncReplicaAdmin(Closing):
    """The part of the admin client that is about replicas."""

    _cluster: Cluster
    settings: ClientSettings

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None
    ) -> dict[int, list[LogDirDescription]]:
        """The log directories of these brokers, or of all, with the replicas in them."""
        await self._cluster.retrying(lambda: self._cluster.refresh([]))
        found: dict[int, list[LogDirDescription]] = {}
        for broker in sorted(self._cluster.nodes) if brokers is None else brokers:
            request = DescribeLogDirsRequest(topics=None)
            answer = cast(DescribeLogDirsResponse, await self._cluster.ask(broker, request))
            if answer.error_code:
                raise error_of(answer.error_code)
            found[broker] = [
                LogDirDescription(
                    each.log_dir,
                    error_of(each.error_code) if each.error_code else None,
                    each.total_bytes,
                    each.usable_bytes,
                    {
                        TopicPartition(topic.name, part.partition_index): ReplicaDescription(
                            part.partition_size, part.offset_lag, part.is_future_key
                        )
                        for topic in each.topics
                        for part in topic.partitions
                    },
                )
                for each in answer.results
            ]
        return found

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, KafkaError | None]:
        """Have the preferred replicas lead these partitions, or all; unclean, whichever lives.

        The answer has what went wrong, by partition; those that had the right leader already are left out.
        """
        wanted = None
        if partitions is not None:
            wanted = [
                TopicPartitions(topic=topic, partitions=indexes)
                for topic, indexes in _by_topic(partitions).items()
            ]
        request = ElectLeadersRequest(
            election_type=_UNCLEAN if unclean else _PREFERRED,
            topic_partitions=wanted,
            timeout_ms=self.settings.request_timeout_ms,
        )

        async def ask() -> ElectLeadersResponse:
            answer = cast(ElectLeadersResponse, await self._cluster.ask_controller(request))
            if answer.error_code:
                raise error_of(answer.error_code)
            return answer

        answer = await self._cluster.retrying(ask)
        return {
            TopicPartition(topic.topic, each.partition_id): (
                error_of(each.error_code, each.error_message) if each.error_code else None
            )
            for topic in answer.replica_election_results
            for each in topic.partition_result
            if each.error_code != ElectionNotNeeded.code
        }

    async def reassign(
        self, targets: Mapping[TopicPartition, Iterable[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move partitions to these brokers, the first of which is to lead; None calls a move off.

        Returns at once: the data follows.  The outcomes by partition: None where the move has begun, or is off.
        """
        topics: dict[str, ReassignableTopic] = {}
        for (topic, index), replicas in targets.items():
            entry = topics.setdefault(topic, ReassignableTopic(name=topic))
            entry.partitions.append(
                ReassignablePartition(
                    partition_index=index, replicas=None if replicas is None else list(replicas)
                )
            )
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self.settings.request_timeout_ms, topics=list(topics.values())
        )
        answer: AlterPartitionReassignmentsResponse = await self._ask_controller(request)
        return {
            TopicPartition(topic.name, each.partition_index): (
                error_of(each.error_code, each.error_message) if each.error_code else None
            )
            for topic in answer.responses
            for each in topic.partitions
        }

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Iterable[int] | None]
    ) -> None:
        """As `reassign`, for who takes any refusal for a failure: raises the first."""
        for (topic, index), error in (await self.reassign(targets)).items():
            if error is not None:
                raise type(error)(f"{topic}-{index}: {error.message or error.text}")

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Which of these partitions, or of all, are on their way."""
        wanted = None
        if partitions is not None:
            wanted = [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
                for topic, indexes in _by_topic(partitions).items()
            ]
        request = ListPartitionReassignmentsRequest(
            timeout_ms=self.settings.request_timeout_ms, topics=wanted
        )
        answer: ListPartitionReassignmentsResponse = await self._ask_controller(request)
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    async def replica_sizes(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[tuple[int, TopicPartition], int]:
        """Bytes that each running broker has of each partition; nothing where it has none of it."""
        topics = [
            DescribableLogDirTopic(topic=topic, partitions=indexes)
            for topic, indexes in _by_topic(partitions).items()
        ]
        await self._cluster.refresh([])
        sizes: dict[tuple[int, TopicPartition], int] = {}
        for node in list(self._cluster.nodes):
            try:
                answer = await self._cluster.ask(node, DescribeLogDirsRequest(topics=topics))
            except KafkaError:
                continue  # it has gone meanwhile
            for directory in cast(DescribeLogDirsResponse, answer).results:
                for found in directory.topics:
                    for each in found.partitions:
                        where = (node, TopicPartition(found.name, each.partition_index))
                        sizes[where] = each.partition_size
        return sizes

    async def unregister_broker(self, broker: int) -> None:
        """Forget a broker that will not come back; it must be stopped, and hold nothing any more."""
        request = UnregisterBrokerRequest(broker_id=broker)

        async def ask() -> None:
            answer = cast(UnregisterBrokerResponse, await self._cluster.ask_controller(request))
            if answer.error_code:
                text = answer.error_message or error_of(answer.error_code).text
                raise error_of(answer.error_code, f"broker {broker}: {text}")

        await self._cluster.retrying(ask)

    async def _ask_controller(self, request: Request) -> Any:
        """The answer, unless it is an error as a whole."""

        async def ask() -> Any:
            answer: Any = await self._cluster.ask_controller(request)
            if answer.error_code:
                raise error_of(answer.error_code, answer.error_message)
            return answer

        return await self._cluster.retrying(ask)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics
