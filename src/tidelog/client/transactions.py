"""The transactions of one producer: where they stand, who the producer is, and what its coordinator is asked.

    new --init--> ready --begin--> open --commit--> committing --> ready
                                    |                   |
                                    +----> abortable <--+ --abort--> aborting --> ready
    from everywhere, for good --> unusable

A failure that another try may cure (a batch that was given up, a group that has moved on) makes the transaction
abortable; one that no try can (a successor with the same id, no permission) makes the producer unusable.

With `transaction.version` 2 (KIP-890) partitions and groups join a transaction by what is sent to them, and every end
raises the epoch.  Older brokers are told of each partition and group first (AddPartitionsToTxn, AddOffsetsToTxn), and the
epoch is raised only after an error (KIP-360).  Absent: two-phase commit (KIP-939).
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from enum import Enum
from typing import TypeVar, cast

from tidelog.client.cluster import TRANSACTION, Cluster, note_coordinator_error
from tidelog.client.group_requests import CommittedOffset, GroupMetadata
from tidelog.client.settings import ProducerSettings
from tidelog.errors import (
    ConcurrentTransactions,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupAuthorizationFailed,
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    KafkaError,
    OperationNotAttempted,
    ProducerFenced,
    ProducerUnusable,
    RebalanceInProgress,
    RequestTimedOut,
    StaleMemberEpoch,
    TidelogError,
    TopicAuthorizationFailed,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionFailed,
    UnknownMemberId,
    UnknownProducerId,
    UnsupportedVersion,
    error_of,
)
from tidelog.names import TopicPartition
from tidelog.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tidelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tidelog.protocol.schema import Request, Response

T = TypeVar("T")

_COMPLETING_PAUSE_S = 0.02
"""How soon to ask again while the transaction before is being completed; Kafka's client waits as long."""

_ADD_PARTITIONS_AT_MOST = 3
"""Later versions are for brokers among themselves."""

# The newest versions that do not ask for transactions of the second version.
_PRODUCE_V1, _END_V1, _OFFSETS_V1 = 11, 4, 4

_NEWEST = 32767


class State(Enum):
    """Where the transactions stand; the value is how a user is told."""

    NEW = "not initialised"
    READY = "ready for a transaction"
    OPEN = "in a transaction"
    COMMITTING = "committing"
    ABORTABLE = "in a transaction that can only be aborted"
    ABORTING = "aborting"
    UNUSABLE = "unusable"


_MOVES: dict[State, set[State]] = {
    State.NEW: {State.READY, State.UNUSABLE},
    State.READY: {State.OPEN, State.UNUSABLE},
    State.OPEN: {State.COMMITTING, State.ABORTABLE, State.ABORTING, State.UNUSABLE},
    State.COMMITTING: {State.READY, State.ABORTABLE, State.ABORTING, State.UNUSABLE},
    State.ABORTABLE: {State.ABORTING, State.UNUSABLE},
    State.ABORTING: {State.READY, State.UNUSABLE},
    State.UNUSABLE: set(),
}

_ABORTABLE = (
    TransactionAbortable,
    UnknownProducerId,
    InvalidProducerIdMapping,
    TopicAuthorizationFailed,
    GroupAuthorizationFailed,
    OperationNotAttempted,
    # The group has moved on without the consumer whose offsets these are (KIP-447).
    UnknownMemberId,
    IllegalGeneration,
    RebalanceInProgress,
    FencedInstanceId,
    FencedMemberEpoch,
    StaleMemberEpoch,
)


class FencedProducer(ProducerUnusable, ProducerFenced):
    """A newer producer with the same transactional id has taken over, or the time of a transaction was over."""


class Transactions:
    """One producer's transactions; lives on one loop, `state` and `check_open` may be read from any thread."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        renumber: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._renumber = renumber
        """Tells the sender that its sequence numbers begin at 0 again."""
        self.id = settings.transactional_id
        self.producer_id = -1
        self.epoch = -1
        self.state = State.NEW
        self.error: TidelogError | None = None
        """Why the transaction can only be aborted, or the producer is unusable."""
        self._second_version = False
        # Of the current transaction.
        self._partitions: set[TopicPartition] = set()
        self._started = False
        """Whether the coordinator may know of it."""
        self._end_is_sent = False
        self._epoch_is_spent = False
        """Whether a number was lost, so that the next transaction needs a new epoch."""

    # What the producer does.

    async def init(self) -> None:
        """Learn who we are; this fences older producers of the same id, and ends what they left open."""
        self._raise_error()
        if self.state is State.NEW:
            await self._init(InitProducerIdRequest(transactional_id=self.id))
            await self._learn_version()
            self._move(State.READY)

    async def begin(self) -> None:
        """Begin a transaction; initialises if nobody has."""
        await self.init()
        if self.state is not State.READY:
            raise TidelogError(f"the producer is {self.state.value}; end that first")
        await self._learn_version()
        self._move(State.OPEN)

    def begin_commit(self) -> None:
        """Nothing more may be sent; what has been is to be settled before `finish_commit`."""
        self._raise_error()
        if self.state is not State.COMMITTING:  # if so, the last try ran out of time
            self._expect(State.OPEN)
            self._move(State.COMMITTING)

    async def finish_commit(self) -> None:
        """Make the transaction visible; it is abortable if something that was sent in it failed."""
        self._raise_error()
        await self._end(commit=True)

    def begin_abort(self) -> None:
        """What has not been sent is dropped; what is on its way must come back before `finish_abort`."""
        if self.state is State.UNUSABLE:
            self._raise_error()
        if self.state is State.COMMITTING and self._end_is_sent:
            raise TidelogError(
                "whether the transaction was committed is not known; call commit_transaction again"
            )
        if self.state is not State.ABORTING:
            self._expect(State.OPEN, State.COMMITTING, State.ABORTABLE)
            self._move(State.ABORTING)

    async def finish_abort(self) -> None:
        """Make everything that was sent in the transaction invisible."""
        await self._end(commit=False)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction."""
        self.check_open()
        if not offsets:
            return
        if not self._second_version:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group.group_id,
            )
            await self._at_coordinator("add offsets", request, _code_of)
        self._started = True
        await self._try("commit offsets", lambda: self._commit_offsets(offsets, group))

    # What the sender asks.

    @property
    def may_send(self) -> bool:
        return self.state in (State.OPEN, State.COMMITTING)

    @property
    def dropping(self) -> TidelogError | None:
        """Why what waits to be sent must be dropped, if it must."""
        if self.state in (State.ABORTABLE, State.UNUSABLE):
            return self.error
        if self.state is State.ABORTING:
            return TransactionFailed("the transaction was aborted before this was sent")
        return None

    @property
    def produce_at_most(self) -> int:
        return _NEWEST if self._second_version else _PRODUCE_V1

    def admits(self, partition: TopicPartition) -> bool:
        """Whether batches for this partition may be sent; if not, it must be added first."""
        if self._second_version:
            self._started = True  # it is added by what is sent now
            return True
        return partition in self._partitions

    async def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Have the coordinator know of these partitions; a failure makes the transaction abortable."""
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, index in partitions:
            entry = topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic))
            entry.partitions.append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=list(topics.values()),
        )
        try:
            await self._at_coordinator(
                "add partitions", request, _worst_of, at_most=_ADD_PARTITIONS_AT_MOST
            )
        except (TransactionFailed, ProducerUnusable):
            return  # noted, and told to whoever ends the transaction
        except TidelogError as error:
            self._started = True  # perhaps: it is not known
            self.batch_failed(error, numbered=False)
            return
        self._started = True
        self._partitions |= set(partitions)

    def batch_failed(self, error: Exception, *, numbered: bool) -> None:
        """A batch of the transaction was given up."""
        self._epoch_is_spent = self._epoch_is_spent or numbered
        if isinstance(error, ProducerFenced | TransactionalIdAuthorizationFailed):
            self._fail("send", error)
        elif self.may_send:
            self.error = TransactionFailed(f"a batch of the transaction was not written: {error}")
            self.error.__cause__ = error
            self._move(State.ABORTABLE)

    def check_open(self) -> None:
        """Raise unless something can be sent now."""
        if self.state is State.OPEN:
            return
        self._raise_error()
        raise TidelogError(
            f"the producer has transactional.id={self.id!r} and is {self.state.value}; send inside of "
            "`with producer.transaction():`"
        )

    # The coordinator.

    async def _init(self, request: InitProducerIdRequest) -> None:
        request.transaction_timeout_ms = self._settings.transaction_timeout_ms
        answer = await self._at_coordinator("initialise", request, _code_of)
        self._become(cast(InitProducerIdResponse, answer))

    def _become(self, answer: InitProducerIdResponse | EndTxnResponse) -> None:
        # Invariant: the epoch never goes back under one producer id.
        assert answer.producer_id != self.producer_id or answer.producer_epoch >= self.epoch
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._epoch_is_spent = False
        self._renumber()

    async def _learn_version(self) -> None:
        """Which version of transactions the cluster has agreed on; asked by each transaction, for it may be raised."""

        async def connect() -> int:
            node = await self._cluster.coordinator(self.id, TRANSACTION)
            try:
                connection = await self._cluster.connection(node, TRANSACTION)
            except KafkaError:
                self._cluster.forget_coordinator(self.id, TRANSACTION)
                raise
            return connection.features.get("transaction.version", 0)

        self._second_version = await self._try("begin", connect) >= 2

    async def _end(self, *, commit: bool) -> None:
        lost_id = isinstance(self.error and self.error.__cause__, InvalidProducerIdMapping)
        if self._started and not lost_id:
            request = EndTxnRequest(
                transactional_id=self.id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=commit,
            )
            at_most = _NEWEST if self._second_version else _END_V1
            action = "commit" if commit else "abort"
            self._end_is_sent = True
            answer = await self._at_coordinator(action, request, _code_of, at_most=at_most)
            if cast(EndTxnResponse, answer).producer_id >= 0:
                self._become(cast(EndTxnResponse, answer))
        if self._epoch_is_spent:
            await self._init(
                InitProducerIdRequest(
                    transactional_id=self.id,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                )
            )
        self._partitions.clear()
        self._started = self._end_is_sent = False
        self.error = None
        self._move(State.READY)

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupMetadata
    ) -> None:
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (topic, index), each in offsets.items():
            entry = topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic))
            entry.partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=each.offset,
                    committed_metadata=each.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group.group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=group.generation,
            member_id=group.member_id,
            group_instance_id=group.instance_id,
            topics=list(topics.values()),
        )
        at_most = _NEWEST if self._second_version else _OFFSETS_V1
        answer = await self._cluster.ask_coordinator(group.group_id, request, at_most=at_most)
        for done in cast(TxnOffsetCommitResponse, answer).topics:
            for part in done.partitions:
                if part.error_code:
                    note_coordinator_error(self._cluster, group.group_id, part.error_code)
                    where = f"{done.name}-{part.partition_index} for group {group.group_id!r}"
                    raise error_of(
                        part.error_code, f"offset of {where}: {error_of(part.error_code).text}"
                    )

    async def _at_coordinator(
        self,
        action: str,
        request: Request,
        code_in: Callable[[Response], int],
        *,
        at_most: int = _NEWEST,
    ) -> Response:
        async def ask() -> Response:
            answer = await self._cluster.ask_coordinator(
                self.id, request, kind=TRANSACTION, at_most=at_most
            )
            if code := code_in(answer):
                note_coordinator_error(self._cluster, self.id, code, TRANSACTION)
                raise error_of(code)
            return answer

        return await self._try(action, ask)

    async def _try(self, action: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until the answer is not for a passing reason a refusal; note what a refusal means for us."""
        loop = asyncio.get_running_loop()
        limit_ms = self._settings.max_block_ms
        deadline = loop.time() + limit_ms / 1000
        pauses = iter(self._cluster.pauses())
        while True:
            try:
                return await ask()
            except KafkaError as error:
                if not error.retriable:
                    self._fail(action, error)
                    self._raise_error()
                    raise
                completing = isinstance(error, ConcurrentTransactions)
                pause = _COMPLETING_PAUSE_S if completing else next(pauses)
                if loop.time() + pause >= deadline:
                    raise RequestTimedOut(
                        f"transactional.id={self.id!r} could not {action} within max.block.ms={limit_ms}: {error}"
                    ) from error
            await asyncio.sleep(pause)

    def _fail(self, action: str, error: KafkaError) -> None:
        """What this error means for the transaction, or for the producer."""
        if isinstance(error, _ABORTABLE) and self.state in (State.OPEN, State.COMMITTING):
            self._epoch_is_spent |= isinstance(error, UnknownProducerId | InvalidProducerIdMapping)
            self.error = TransactionFailed(f"the transaction could not {action}: {error}")
            self._move(State.ABORTABLE)
        elif self.state is State.NEW and not isinstance(error, ProducerFenced | UnsupportedVersion):
            return  # no bootstrap address answers, for instance: another try may do
        elif isinstance(error, ProducerFenced | InvalidProducerEpoch):
            self.error = FencedProducer(
                f"another producer with transactional.id={self.id!r} has taken over, or a transaction took longer "
                f"than transaction.timeout.ms={self._settings.transaction_timeout_ms}; this one is of no more use: "
                "close it"
            )
            self._move(State.UNUSABLE)
        else:
            self.error = ProducerUnusable(
                f"the producer with transactional.id={self.id!r} could not {action}, and is of no more use: {error}"
            )
            self._move(State.UNUSABLE)
        if self.error is not None:
            self.error.__cause__ = error

    def _move(self, state: State) -> None:
        """The one door through which the state changes."""
        if state is self.state:
            return
        assert state in _MOVES[self.state], f"{self.state} cannot become {state}"
        self.state = state

    def _expect(self, *states: State) -> None:
        if self.state not in states:
            raise TidelogError(f"the producer is not in a transaction: it is {self.state.value}")

    def _raise_error(self) -> None:
        if self.error is not None and self.state in (State.ABORTABLE, State.UNUSABLE):
            raise self.error


def _code_of(answer: Response) -> int:
    code: int = cast(
        InitProducerIdResponse | EndTxnResponse | AddOffsetsToTxnResponse, answer
    ).error_code
    return code


def _worst_of(answer: Response) -> int:
    """The code that decides: one that is not only a consequence of another partition's."""
    codes = [
        each.partition_error_code
        for topic in cast(AddPartitionsToTxnResponse, answer).results_by_topic_v3_and_below
        for each in topic.results_by_partition
        if each.partition_error_code
    ]
    return max(codes, key=lambda code: code != OperationNotAttempted.code, default=0)
