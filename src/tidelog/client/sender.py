"""Sends a producer's batches: to the right broker, in order, again if need be.

One task owns everything here.  It wakes when a batch is sealed or will have lingered, when an answer comes and when a
pause is over; then it takes, for each broker with room for another request, the first batch of each partition.

With idempotence a batch has a sequence number from its first sending on and keeps it, so the broker drops what it
has already and refuses what would leave a gap; a batch refused for a gap waits for the one before it.  When that one
was given up, nothing after it can have been written: the sender lets what is on its way to the partition come back,
raises the partition's epoch, and numbers what is left from 0 (as KIP-360).  Until the broker says that there is a gap
nothing is numbered anew, for it may have been written, and would be twice.

In transactions the id is the transactional one's, batches leave only while one is open, and a batch that is given up
makes it abortable: then everything that waits is dropped.

A batch that the partition finds too large is cut in two, whose numbers are those that the whole had.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial

from tidelog.client.accumulator import Accumulator, PartitionQueue
from tidelog.client.batch import Batch
from tidelog.client.cluster import Cluster
from tidelog.client.connection import Connection
from tidelog.client.failures import Failures
from tidelog.client.metrics import ProducerMetrics
from tidelog.client.settings import ProducerSettings
from tidelog.client.transactions import Transactions
from tidelog.clock import Clock
from tidelog.errors import (
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    KafkaError,
    MessageTooLarge,
    NetworkException,
    OutOfOrderSequenceNumber,
    RequestTimedOut,
    TidelogError,
    UnknownProducerId,
    UnsupportedVersion,
    error_of,
)
from tidelog.names import TopicPartition
from tidelog.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.schema import Response

_log = logging.getLogger(__name__)

_NO_ID = -1
_SEQUENCES = 0x7FFFFFFF
_LAST_EPOCH = 32767
_RECOGNISED = 5
"""So many of a producer's last batches does a broker recognise when they come again."""
_NEWEST = 32767


class Sender:
    """Takes batches from the accumulator and settles them; lives on one loop."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        settings: ProducerSettings,
        clock: Clock,
        metrics: ProducerMetrics,
        delivered: Callable[[Batch], None] | None = None,
    ) -> None:
        """`delivered` is told of each batch that was acknowledged."""
        self._delivered = delivered
        self._cluster = cluster
        self._accumulator = accumulator
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        metrics.gauge("requests-in-flight", lambda: sum(self._in_flight.values()))
        self._codec = settings.codec
        self._acks = settings.acks_number
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._woken = False
        self._in_flight: dict[int, int] = {}
        self._node_retry_at: dict[int, float] = {}
        self._unreachable: dict[int, str] = {}
        """By broker, why there is no connection to it."""
        self._background: set[asyncio.Task[None]] = set()
        self._refreshing: set[str] = set()
        # The producer id; a new one is taken when the old one has no more epochs.
        self._producer_id = _NO_ID
        self._producer_epoch = -1
        self._getting_id = False
        self._broken = False
        self._proven: dict[TopicPartition, int] = {}
        """By partition the last producer id of which it has taken a batch."""
        self.transactions: Transactions | None = None
        if settings.transactional_id:
            self.transactions = Transactions(cluster, settings, self._renumber)
        self._adding_partitions = False
        self.failures = Failures()
        self._closed = False
        self._task = asyncio.ensure_future(self._run())
        self._start(self._keep_fresh())

    def wake(self) -> None:
        """Look again; from any thread."""
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop is closed, and the batch has failed or will
                self._loop.call_soon_threadsafe(self._wake.set)

    async def close(self) -> None:
        """Stop; batches that are not done fail."""
        self._closed = True
        self._task.cancel()
        for task in self._background:
            task.cancel()
        await asyncio.gather(self._task, *self._background, return_exceptions=True)
        self._accumulator.close()
        for batch in list(self._accumulator.pending):
            for leaf in batch.leaves():
                if not leaf.done:
                    self._finish(leaf, error=self._not_acknowledged(leaf))
        self.failures.close()

    def _not_acknowledged(self, batch: Batch) -> NetworkException:
        tp = batch.partition
        return NetworkException(
            f"the producer was closed before {tp} acknowledged this{self._why(tp)}"
        )

    async def _run(self) -> None:
        while True:
            try:
                until = self._drain()
            except Exception:  # noqa: BLE001 - the task's root: a fault of ours must not stop all sending
                _log.exception("sending failed in a way that was not expected")
                until = self._clock.monotonic() + 1
            try:
                pause = None if until is None else max(0.0, until - self._clock.monotonic())
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._woken = False
            self._wake.clear()

    def _drain(self) -> float | None:
        """Send what can be sent; returns when to look again at the latest."""
        now = self._clock.monotonic()
        soonest = self._accumulator.take_lingered(now)
        if self.transactions is not None and (dropped := self.transactions.dropping) is not None:
            self._abandon(dropped)
        waiting = [queue for queue in list(self._accumulator.queues.values()) if queue.batches]
        if not waiting:
            return soonest
        for queue in waiting:
            self._expire(queue, now)
        if not self._ready_to_number():
            return _earlier(soonest, now + 1)
        while taken := self._take(waiting, now):
            for node, batches in taken.items():
                self._send(node, batches)
        for queue in waiting:
            if queue.batches:
                soonest = _earlier(soonest, max(queue.retry_at, now + 0.5))
        return soonest

    def _take(self, waiting: list[PartitionQueue], now: float) -> dict[int, list[Batch]]:
        """For each broker that can take a request now, the next batch of each of its partitions."""
        taken: dict[int, list[Batch]] = {}
        sizes: dict[int, int] = {}
        unknown: list[TopicPartition] = []
        for queue in waiting:
            if not queue.batches or not queue.batches[0].sealed or queue.retry_at > now:
                continue
            if not self._may_go_on(queue):
                continue
            leader = self._cluster.leader_at_hand(queue.partition)
            if leader is None or leader.node < 0:
                self._refresh(queue.partition.topic)
                continue
            node = leader.node
            if self._in_flight.get(node, 0) >= self._settings.max_in_flight or not self._reachable(
                node, now
            ):
                continue
            size = len(queue.batches[0].data)
            if node in taken and sizes[node] + size > self._settings.max_request_size:
                continue
            if queue.in_flight and self._settings.idempotent and not self._is_proven(queue):
                continue
            if self.transactions is not None and not self.transactions.admits(queue.partition):
                unknown.append(queue.partition)
                continue
            with self._accumulator.lock:
                batch = queue.batches.popleft()
            queue.in_flight.append(batch)
            taken.setdefault(node, []).append(batch)
            sizes[node] = sizes.get(node, 0) + size
        if unknown and not self._adding_partitions:
            self._adding_partitions = True
            self._start(self._add_partitions(unknown))
        return taken

    def _may_go_on(self, queue: PartitionQueue) -> bool:
        """Whether the next batch of the partition may be sent now."""
        if not self._settings.idempotent:
            return True
        if queue.gap:
            if queue.in_flight:
                return False
            with self._accumulator.lock:
                queue.begin_anew()
        # Lest the broker forget one that may have to come again.  Counted for each partition: when its leader moves, what
        # the old one has not answered is on its way too.
        is_new = queue.batches[0].base_sequence < 0
        return not is_new or len(queue.in_flight) < _RECOGNISED

    def _is_proven(self, queue: PartitionQueue) -> bool:
        """Whether the partition has a batch of this producer id.

        Until then a broker takes any number for the first, so one batch at a time goes there: were the first refused for
        a passing reason and the second not, they would change places.
        """
        return self._proven.get(queue.partition) == self._current_id

    @property
    def _current_id(self) -> int:
        return self._producer_id if self.transactions is None else self.transactions.producer_id

    def _send(self, node: int, batches: list[Batch]) -> None:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            batch.attempts += 1
            if batch.base_sequence < 0:
                self._number(batch)
            topic, index = batch.partition
            self._measure(batch)
            data = topics.setdefault(topic, TopicProduceData(name=topic))
            data.partition_data.append(PartitionProduceData(index=index, records=batch.data))
        request = ProduceRequest(
            transactional_id=self._settings.transactional_id or None,
            acks=self._acks,
            timeout_ms=self._settings.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        connection = self._cluster.connection_at_hand(node)
        assert connection is not None  # `_reachable` has seen it, and nothing ran between
        try:
            self._post(connection, node, request, batches)
        except KafkaError as error:
            self._all_failed(batches, error)

    def _measure(self, batch: Batch) -> None:
        if batch.attempts > 1:
            self._metrics.retried.record(batch.count)
            return
        waited_s = self._clock.monotonic() - batch.opened_at
        self._metrics.queue_time.record(waited_s * 1000)
        self._metrics.batch_size.record(len(batch.data))
        self._metrics.sent.record(batch.count)

    def _post(
        self, connection: Connection, node: int, request: ProduceRequest, batches: list[Batch]
    ) -> None:
        if self._acks == 0:
            connection.tell(request)
            for batch in batches:
                self._finish(batch)
            return
        at_most = _NEWEST if self.transactions is None else self.transactions.produce_at_most
        future = connection.post(
            request, timeout_s=self._settings.request_timeout_s, at_most=at_most
        )
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        future.add_done_callback(partial(self._answered, node, batches))

    def _number(self, batch: Batch) -> None:
        if not self._settings.idempotent:
            batch.number(self._codec, -1, -1, -1)
            return
        queue = self._accumulator.queues[batch.partition]
        sequence = queue.next_sequence
        self._write_number(batch, sequence)
        queue.next_sequence = (sequence + batch.count) & _SEQUENCES

    def _write_number(self, batch: Batch, sequence: int) -> None:
        mine = self.transactions
        if mine is not None:
            batch.number(self._codec, mine.producer_id, mine.epoch, sequence, transactional=True)
            return
        epoch = self._producer_epoch + self._accumulator.queues[batch.partition].bumps
        batch.number(self._codec, self._producer_id, epoch, sequence)
        self._broken = self._broken or epoch >= _LAST_EPOCH

    def _answered(
        self, node: int, batches: list[Batch], future: "asyncio.Future[Response]"
    ) -> None:
        self._in_flight[node] -= 1
        if self._closed or future.cancelled():
            return  # its batches have failed already
        self.wake()
        error = future.exception()
        if error is not None:
            reason = error if isinstance(error, KafkaError) else NetworkException(str(error))
            self._all_failed(batches, reason)
            return
        response = future.result()
        assert isinstance(response, ProduceResponse)
        self._metrics.throttled.record(response.throttle_time_ms)
        self._metrics.records_per_request.record(sum(batch.count for batch in batches))
        answers = {
            (topic.name, each.index): each
            for topic in response.responses
            for each in topic.partition_responses
        }
        for batch in batches:
            answer = answers.get(batch.partition)
            if answer is None:
                self._failed(batch, NetworkException("the answer does not speak of this partition"))
            else:
                self._settle(batch, answer)

    def _settle(self, batch: Batch, answer: PartitionProduceResponse) -> None:
        code = answer.error_code
        if code in (0, DuplicateSequenceNumber.code):
            offset = -1 if code else answer.base_offset
            self._proven[batch.partition] = self._current_id
            self._finish(batch, offset, answer.log_append_time_ms)
            return
        detail = answer.error_message or error_of(code).text
        if answer.record_errors:
            first = answer.record_errors[0]
            detail = f"record {first.batch_index} of the batch: {first.batch_index_error_message or detail}"
        if code == MessageTooLarge.code and batch.count > 1:
            self._split(batch)
            return
        error = error_of(code, f"{batch.partition} refused a batch: {detail}")
        if isinstance(error, MessageTooLarge):
            error = MessageTooLarge(
                f"{batch.partition} refused a message of {len(batch.data)} bytes: {detail}; raise the topic's "
                "max.message.bytes, or send less at once"
            )
        self._failed(batch, error)

    def _split(self, batch: Batch) -> None:
        """Send a batch that is too large as two, in its place and with its numbers."""
        queue = self._accumulator.queues[batch.partition]
        queue.in_flight.remove(batch)
        self._metrics.split.record(1)
        parts = self._accumulator.split(batch)
        sequence = batch.base_sequence
        for part in parts:
            if sequence >= 0:
                self._write_number(part, sequence)
                sequence = (sequence + part.count) & _SEQUENCES
        with self._accumulator.lock:
            for part in parts:
                queue.put_back(part)

    def _all_failed(self, batches: list[Batch], error: KafkaError) -> None:
        for batch in batches:
            self._failed(batch, error)

    def _failed(self, batch: Batch, error: KafkaError) -> None:
        """Send again what may be sent again; give up on the rest."""
        queue = self._accumulator.queues[batch.partition]
        now = self._clock.monotonic()
        again = error.retriable
        if isinstance(error, OutOfOrderSequenceNumber | UnknownProducerId | InvalidProducerEpoch):
            first = not _has_earlier(queue, batch)
            again = self.transactions is None or not first
            queue.gap = queue.gap or (first and again)
        elif again:
            self._refresh(batch.partition.topic)
        if not again or batch.attempts > self._settings.retries or now >= batch.deadline:
            self._give_up(batch, error)
            return
        queue.in_flight.remove(batch)
        with self._accumulator.lock:
            queue.put_back(batch)
        queue.retry_at = now + self._pause(batch.attempts)

    def _pause(self, attempts: int) -> float:
        first, longest = self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms
        return float(min(first << min(attempts - 1, 20), longest)) / 1000

    def _give_up(self, batch: Batch, error: Exception) -> None:
        self._finish(batch, error=error)
        self._metrics.failed.record(batch.count)
        if self.transactions is not None:
            self.transactions.batch_failed(error, numbered=batch.base_sequence >= 0)
            self.wake()  # what waits may have to be dropped now

    def _finish(
        self,
        batch: Batch,
        base_offset: int = -1,
        log_append_time: int = -1,
        error: Exception | None = None,
    ) -> None:
        queue = self._accumulator.queues[batch.partition]
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        # What goes wrong in a transaction is told by whoever ends it.
        if error is not None and batch.watched and self.transactions is None:
            count = batch.count if batch.sealed else batch.draft.count
            batch.failed = self.failures.note(batch.partition, error, count)
        batch.finish(base_offset, log_append_time, error)
        if error is None and self._delivered is not None:
            self._delivered(batch)
        self._accumulator.release(batch)

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        while queue.batches and queue.batches[0].deadline <= now and queue.batches[0].sealed:
            with self._accumulator.lock:
                batch = queue.batches.popleft()
            limit = self._settings.delivery_timeout_ms
            self._give_up(
                batch,
                RequestTimedOut(
                    f"not acknowledged by {batch.partition} within delivery.timeout.ms={limit}{self._why(batch.partition)}"
                ),
            )

    def _why(self, tp: TopicPartition) -> str:
        """What is known against a partition, to be added to an error."""
        info = self._cluster.topics.get(tp.topic)
        if info is None:
            return " (its topic is not there)"
        if tp.partition not in info.partitions:
            return f" (the topic has partitions 0 to {len(info.partitions) - 1})"
        node = info.partitions[tp.partition].node
        if node < 0:
            return " (it has no leader)"
        return f" ({self._unreachable[node]})" if node in self._unreachable else ""

    # What must be there before a batch can be sent.

    def _reachable(self, node: int, now: float) -> bool:
        """Whether there is a connection; if not, one is opened, and the sender is woken."""
        if self._cluster.connection_at_hand(node) is not None:
            return True
        if self._node_retry_at.get(node, 0) <= now:
            self._node_retry_at[node] = now + self._settings.retry_backoff_max_ms / 1000
            self._start(self._open(node))
        return False

    async def _open(self, node: int) -> None:
        try:
            await self._cluster.connection(node)
            self._node_retry_at.pop(node, None)
            self._unreachable.pop(node, None)
        except KafkaError as error:
            _log.debug("broker %s cannot be reached: %s", node, error)
            self._unreachable[node] = str(error)
            self._node_retry_at[node] = (
                self._clock.monotonic() + self._settings.retry_backoff_ms / 1000
            )
            topics = {
                each.topic for each, queue in self._accumulator.queues.items() if queue.batches
            }
            for topic in topics:
                self._refresh(topic)

    def _ready_to_number(self) -> bool:
        """Whether there is a producer id that is good; if not, one is on its way."""
        if not self._settings.idempotent:
            return True
        if self.transactions is not None:
            return self.transactions.may_send
        if self._broken and any(self._in_flight.values()):
            return False
        if self._broken:
            self._producer_id = _NO_ID
        if self._producer_id == _NO_ID and not self._getting_id:
            self._getting_id = True
            self._start(self._get_producer_id())
        return self._producer_id != _NO_ID and not self._broken

    async def _get_producer_id(self) -> None:
        async def ask() -> InitProducerIdResponse:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
            answer = await self._cluster.ask_any(request)
            assert isinstance(answer, InitProducerIdResponse)
            if answer.error_code:
                raise error_of(answer.error_code)
            return answer

        try:
            answer = await self._cluster.retrying(ask, self._settings.delivery_timeout_ms / 1000)
        except UnsupportedVersion:
            self._abandon(
                UnsupportedVersion("the broker knows no producer ids; set enable_idempotence=False")
            )
        except TidelogError as error:
            self._abandon(error)
        else:
            self._renumber()
            self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch
        finally:
            self._getting_id = False

    def _renumber(self) -> None:
        """There is a new id or epoch: what has not been sent is numbered from 0."""
        with self._accumulator.lock:
            for queue in self._accumulator.queues.values():
                queue.begin_anew()
                queue.bumps = 0
        self._broken = False

    def _abandon(self, error: TidelogError) -> None:
        """There is no producer id to be had, or the transaction is over: what waits has failed."""
        for queue in self._accumulator.queues.values():
            while queue.batches and queue.batches[0].sealed:
                with self._accumulator.lock:
                    batch = queue.batches.popleft()
                self._give_up(batch, error)

    async def _add_partitions(self, partitions: list[TopicPartition]) -> None:
        assert self.transactions is not None
        try:
            await self.transactions.add_partitions(partitions)
        finally:
            self._adding_partitions = False

    def _refresh(self, topic: str) -> None:
        if topic not in self._refreshing:
            self._refreshing.add(topic)
            self._start(self._ask_metadata(topic))

    async def _ask_metadata(self, topic: str) -> None:
        try:
            await self._cluster.refresh([topic])
        except KafkaError as error:
            _log.debug("metadata of %s: %s", topic, error)
        finally:
            await asyncio.sleep(self._settings.retry_backoff_ms / 1000)
            self._refreshing.discard(topic)

    async def _keep_fresh(self) -> None:
        """Ask anew for the topics in use: partitions are added, and leaders move without anybody's error."""
        while True:
            await asyncio.sleep(self._settings.metadata_max_age_ms / 1000)
            try:
                # A topic that was deleted must not come back by itself.
                await self._cluster.refresh(list(self._cluster.topics), create=False)
            except KafkaError as error:
                _log.debug("metadata: %s", error)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._background.discard(task)
        self.wake()


def _has_earlier(queue: PartitionQueue, batch: Batch) -> bool:
    """Whether a batch with a lower sequence number is still to be settled."""
    before = [*queue.in_flight, *queue.batches]
    return any(
        0 <= other.base_sequence < batch.base_sequence for other in before if other is not batch
    )


def _earlier(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)
