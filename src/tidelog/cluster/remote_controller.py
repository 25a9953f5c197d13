"""The controller on another broker: the same methods as `Controller`, over the wire.

Each of them may be asked twice, when an answer was lost: the controller knows what it has done already.  Raises
`NotController` when that broker is not the controller, and what `Peers.ask` raises.
"""

from collections.abc import Iterator, Sequence, Set
from itertools import groupby
from typing import cast
from uuid import UUID

from tidelog.cluster.controller import Standing
from tidelog.cluster.image import PartitionState
from tidelog.cluster.isr import IsrChange
from tidelog.cluster.metadata import BrokerRecord
from tidelog.cluster.offline import Place
from tidelog.cluster.peers import Peers
from tidelog.cluster.tail import Tail
from tidelog.cluster.topics import Created, NewTopic
from tidelog.cluster.versions import FEATURE
from tidelog.errors import KafkaError, LeaderNotAvailable, NotController, error_of
from tidelog.protocol.codec import encode
from tidelog.protocol.frame import LENGTH_BYTES, decode_response, encode_request
from tidelog.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from tidelog.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
    PartitionData,
    TopicData,
)
from tidelog.protocol.messages.assign_replicas_to_dirs import (
    LOST,
    UNASSIGNED,
    AssignedPartitionData,
    AssignedTopicData,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
)
from tidelog.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from tidelog.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.envelope import (
    DefaultPrincipalData,
    EnvelopeRequest,
    EnvelopeResponse,
)
from tidelog.protocol.schema import Request, Response

_PRINCIPAL_VERSION = b"\0\0"
_LOST = 1
"""As Kafka's "recovering" (KIP-704), of who leaves: what it had is gone."""


class RemoteController:
    """The controller, as broker `broker_id` asks `controller_id` for it."""

    def __init__(
        self,
        broker_id: int,
        controller_id: int,
        peers: Peers,
        tail: Tail,
        cluster_id: str,
        timeout_ms: int,
    ) -> None:
        self._broker_id = broker_id
        self._controller_id = controller_id
        self._peers = peers
        self._tail = tail
        self._cluster_id = cluster_id
        self._timeout_ms = timeout_ms

    async def forward(self, frame: bytes, principal: tuple[str, ...], host: bytes) -> bytes:
        """The answer to a client's request; both are frames without their lengths.

        Without a principal the broker asks for itself.
        """
        who = b""
        if principal:
            data = DefaultPrincipalData(type=principal[0], name=principal[1])
            who = _PRINCIPAL_VERSION + bytes(encode(data, 0))
        request = EnvelopeRequest(
            request_data=frame,
            request_principal=who,
            client_host_address=host,
        )
        # Not on the connection for control: what a client asks for may take long.
        answer = cast(EnvelopeResponse, await self._ask(request, purpose="forward"))
        _check(answer.error_code)
        return answer.response_data or b""

    async def create_topics(self, wanted: Sequence[NewTopic]) -> list[Created | KafkaError]:
        version = CreateTopicsRequest.versions.last
        request = CreateTopicsRequest(topics=[_creatable(each) for each in wanted])
        frame = encode_request(request, version, 0, None)[LENGTH_BYTES:]
        data = await self.forward(bytes(frame), (), b"")
        _, answer = decode_response(CreateTopicsResponse, data, version)
        told = {each.name: each for each in answer.topics}
        outcomes: list[Created | KafkaError] = []
        for topic in wanted:
            found = told.get(topic.name)
            if found is None:
                outcomes.append(LeaderNotAvailable())
            elif found.error_code:
                outcomes.append(error_of(found.error_code, found.error_message))
            else:
                made = Created(
                    name=found.name,
                    topic_id=found.topic_id,
                    partitions=found.num_partitions,
                    replication_factor=found.replication_factor,
                )
                outcomes.append(made)
        return outcomes

    async def allocate_producer_ids(self) -> range:
        this = self._tail.image.brokers.get(self._broker_id)
        request = AllocateProducerIdsRequest(
            broker_id=self._broker_id, broker_epoch=-1 if this is None else this.epoch
        )
        answer = cast(AllocateProducerIdsResponse, await self._ask(request))
        _check(answer.error_code)
        first = answer.producer_id_start
        return range(first, first + answer.producer_id_len)

    async def register(self, record: BrokerRecord, previous_epoch: int, version: int = 1) -> int:
        request = BrokerRegistrationRequest(
            broker_id=record.broker_id,
            cluster_id=self._cluster_id,
            incarnation_id=UUID(record.incarnation),
            listeners=[
                Listener(name=name, host=host, port=port) for name, host, port in record.endpoints
            ],
            features=[
                Feature(name=FEATURE, min_supported_version=1, max_supported_version=version)
            ],
            rack=record.rack,
            previous_broker_epoch=previous_epoch,
        )
        answer = cast(BrokerRegistrationResponse, await self._ask(request))
        _check(answer.error_code)
        return answer.broker_epoch

    async def heartbeat(
        self,
        broker_id: int,
        broker_epoch: int,
        *,
        metadata_offset: int,
        want_fence: bool = False,
        want_shut_down: bool = False,
    ) -> Standing:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            current_metadata_offset=metadata_offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
        )
        answer = cast(BrokerHeartbeatResponse, await self._ask(request))
        _check(answer.error_code)
        return Standing(answer.is_caught_up, answer.is_fenced, answer.should_shut_down)

    async def alter_partition(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> list[PartitionState | KafkaError]:
        request = AlterPartitionRequest(
            broker_id=broker_id, broker_epoch=broker_epoch, topics=list(self._by_topic(changes))
        )
        answer = cast(AlterPartitionResponse, await self._ask(request))
        _check(answer.error_code)
        if any(self._needs_the_image(each) for each in changes):
            await self._tail.catch_up()
        told = {
            (topic.topic_id, each.partition_index): each
            for topic in answer.topics
            for each in topic.partitions
        }
        return [self._outcome(each, told.get((each.topic_id, each.index))) for each in changes]

    async def assign_directories(
        self, broker_id: int, broker_epoch: int, *, lost: Set[Place], back: Set[Place]
    ) -> None:
        told = [(LOST, lost), (UNASSIGNED, back)]
        request = AssignReplicasToDirsRequest(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            directories=[_directory(each, places) for each, places in told if places],
        )
        answer = cast(AssignReplicasToDirsResponse, await self._ask(request))
        _check(answer.error_code)

    async def _ask(self, request: Request, *, purpose: str = "control") -> Response:
        return await self._peers.ask(
            self._controller_id, request, purpose=purpose, timeout_ms=self._timeout_ms
        )

    def _by_topic(self, changes: Sequence[IsrChange]) -> Iterator[TopicData]:
        ordered = sorted(changes, key=lambda each: each.topic_id.int)
        for topic_id, group in groupby(ordered, lambda each: each.topic_id):
            yield TopicData(topic_id=topic_id, partitions=[self._wanted(each) for each in group])

    def _wanted(self, change: IsrChange) -> PartitionData:
        brokers = self._tail.image.brokers
        epochs = {each: brokers[each].epoch for each in change.isr if each in brokers}
        epochs.update(zip(change.isr, change.broker_epochs, strict=False))
        return PartitionData(
            partition_index=change.index,
            leader_epoch=change.leader_epoch,
            partition_epoch=change.partition_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=each, broker_epoch=epochs.get(each, -1))
                for each in change.isr
            ],
            leader_recovery_state=_LOST if change.for_good else 0,
        )

    def _needs_the_image(self, change: IsrChange) -> bool:
        """Whether the answer alone would mislead.

        It does not tell who holds the partition after a reassignment.  And a leader that commits with fewer must know of every
        min.insync.replicas by which the controller decided who is eligible.
        """
        state = self._tail.image.maybe_partition(change.topic_id, change.index)
        return state is not None and (
            bool(state.adding or state.removing) or len(change.isr) < len(state.isr)
        )

    def _outcome(
        self, change: IsrChange, told: AlterPartitionResponsePartitionData | None
    ) -> PartitionState | KafkaError:
        known = self._tail.image.maybe_partition(change.topic_id, change.index)
        if told is None or known is None:
            return NotController()
        if told.error_code:
            return error_of(told.error_code)
        if known.partition_epoch >= told.partition_epoch:
            return known
        return PartitionState(
            told.leader_id,
            told.leader_epoch,
            told.partition_epoch,
            known.replicas,
            tuple(told.isr),
        )


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


def _directory(directory: UUID, places: Set[Place]) -> DirectoryData:
    topics = groupby(sorted(places), lambda each: each[0])
    return DirectoryData(
        id=directory,
        topics=[
            AssignedTopicData(
                topic_id=topic_id,
                partitions=[AssignedPartitionData(partition_index=index) for _, index in group],
            )
            for topic_id, group in topics
        ],
    )


def _check(error_code: int) -> None:
    if error_code:
        raise error_of(error_code)
