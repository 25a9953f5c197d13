"""The cluster as a client sees it: which brokers there are, who leads what, and a connection to each.

Everything that fails for a passing reason is tried again with growing pauses (`retrying`), after the metadata were
asked anew where that may help.  Requests that block at the broker (Fetch, JoinGroup) have connections of their own,
because a broker answers in order.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar, cast
from uuid import UUID

from tidelog.client.connection import Connection
from tidelog.client.metrics import Metrics
from tidelog.client.partitioning import Candidates
from tidelog.client.security import ClientSecurity
from tidelog.client.settings import ClientSettings
from tidelog.client.silence import Silence
from tidelog.dataclass import dataclass
from tidelog.errors import (
    CoordinatorNotAvailable,
    InvalidTopicException,
    KafkaError,
    LeaderNotAvailable,
    NetworkException,
    NotController,
    NotCoordinator,
    RequestTimedOut,
    SettingsError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    error_of,
)
from tidelog.names import TopicPartition
from tidelog.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tidelog.protocol.schema import ZERO_UUID, Request, Response

T = TypeVar("T")

_BOOTSTRAP_ROUNDS = 3
"""How often all bootstrap addresses are tried before a client gives up on its first contact."""

_UNKNOWN_TOPIC_PATIENCE_S = 2.0
"""A topic may have been created a moment ago, or by this very question; after this long there is none."""

MAIN = "main"
FETCH = "fetch"
GROUP = "group"
TRANSACTION = "transaction"
"""What a connection is for; one for each purpose and broker."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a partition; node -1 is nobody."""

    node: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """What the metadata say of a topic."""

    name: str
    id: UUID
    is_internal: bool
    partitions: dict[int, Leader]
    candidates: Candidates
    """For those who choose a partition."""
    raw: MetadataResponseTopic


class Cluster:
    """Metadata and connections of one client; lives on one loop."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        auto_create: bool = False,
        metrics: Metrics | None = None,
        on_topic: Callable[[TopicInfo], None] | None = None,
    ) -> None:
        """`on_topic` is told whatever the brokers say of a topic."""
        self.settings = settings
        self._on_topic = on_topic
        self.metrics = metrics or Metrics()
        self.auto_create = auto_create
        self._security = ClientSecurity.of(settings)
        self.bootstrap = [_address(text) for text in settings.bootstrap_servers]
        if not self.bootstrap:
            raise SettingsError("bootstrap.servers names no address; give it as host:port")
        self.nodes: dict[int, tuple[str, int]] = {}
        self.racks: dict[int, str | None] = {}
        self.controller = -1
        self.cluster_id: str | None = None
        self.topics: dict[str, TopicInfo] = {}
        self._connections: dict[tuple[int, str], Connection] = {}
        self._opening: dict[tuple[int, str], asyncio.Task[Connection]] = {}
        self._retiring: list[Connection] = []
        """Replaced by others; each closes itself when its last answer is here."""
        self._silence = Silence(self)
        self._coordinators: dict[tuple[str, str], int] = {}
        self._refreshing: dict[
            tuple[frozenset[str] | None, bool], asyncio.Task[MetadataResponse]
        ] = {}

    # Metadata.

    async def refresh(
        self, topics: Iterable[str] | None, *, create: bool | None = None
    ) -> MetadataResponse:
        """Ask anew for these topics, or for all; concurrent callers who ask the same share the answer.

        With `create` the broker may make what is missing; without either, as the client was told to.
        """
        create = self.auto_create if create is None else create
        key = (None if topics is None else frozenset(topics), create)
        task = self._refreshing.get(key)
        if task is None:
            task = asyncio.ensure_future(self._refresh(*key))
            self._refreshing[key] = task
            task.add_done_callback(_see)
            task.add_done_callback(lambda _: self._refreshing.pop(key, None))
        return await asyncio.shield(task)

    async def topic(self, name: str, timeout_s: float | None = None) -> TopicInfo:
        """What is known of the topic; asked for if need be, and waited for as long as none of its partitions has a leader."""
        info = self.topics.get(name)
        if info is not None and info.candidates.led:
            return info

        loop = asyncio.get_running_loop()
        patient_until = loop.time() + _UNKNOWN_TOPIC_PATIENCE_S

        async def look() -> TopicInfo:
            response = await self.refresh([name])
            error = _topic_error(response, name)
            if isinstance(error, UnknownTopicOrPartition) and loop.time() > patient_until:
                raise UnknownTopic(error.message)
            if error is not None:
                raise error
            return self.topics[name]

        return await self.retrying(look, timeout_s)

    async def leader(self, topic: str, partition: int) -> Leader:
        """Who leads the partition now."""
        info = await self.topic(topic)
        if partition not in info.candidates.led:
            await self.refresh([topic])  # it may have grown, or somebody was elected
            info = await self.topic(topic)
        if partition not in info.partitions:
            raise UnknownTopic(
                f"topic {topic!r} has partitions 0 to {len(info.partitions) - 1}, not {partition}"
            )
        leader = info.partitions[partition]
        if leader.node < 0:
            raise LeaderNotAvailable(f"{topic}-{partition} has no leader at the moment")
        return leader

    def leader_at_hand(self, tp: TopicPartition) -> Leader | None:
        """The leader as last heard; None if it is not known."""
        info = self.topics.get(tp.topic)
        leader = info.partitions.get(tp.partition) if info else None
        return leader if leader is not None and leader.node in self.nodes else None

    # Requests.

    async def ask(
        self,
        node: int,
        request: Request,
        *,
        purpose: str = MAIN,
        timeout_s: float | None = None,
        at_most: int = 32767,
    ) -> Response:
        """Ask this broker."""
        connection = await self.connection(node, purpose)
        return await connection.ask(
            request, timeout_s=timeout_s or self.settings.request_timeout_s, at_most=at_most
        )

    async def ask_any(self, request: Request) -> Response:
        """Ask whichever broker can be reached."""
        connection = await self._any_connection()
        return await connection.ask(request, timeout_s=self.settings.request_timeout_s)

    async def ask_controller(self, request: Request) -> Response:
        """Ask the controller, found anew when it moved."""
        if self.controller not in self.nodes:
            await self.refresh([])
        if self.controller not in self.nodes:
            raise NotController("the cluster has no controller at the moment")
        try:
            return await self.ask(self.controller, request)
        except (NetworkException, RequestTimedOut):
            self.controller = -1  # it may be gone, and another broker in its place
            raise

    async def ask_coordinator(
        self,
        key: str,
        request: Request,
        *,
        kind: str = GROUP,
        timeout_s: float | None = None,
        at_most: int = 32767,
    ) -> Response:
        """Ask the broker that keeps this group, or this transactional id."""
        node = await self.coordinator(key, kind)
        try:
            return await self.ask(node, request, purpose=kind, timeout_s=timeout_s, at_most=at_most)
        except (NetworkException, RequestTimedOut):
            self.forget_coordinator(key, kind)
            raise

    async def coordinator(self, key: str, kind: str = GROUP) -> int:
        """Which broker keeps this group, or this transactional id."""
        found = self._coordinators.get((kind, key))
        if found is not None:
            return found
        key_type = int(kind == TRANSACTION)
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        answer = cast(FindCoordinatorResponse, await self.ask_any(request))
        one = answer.coordinators[0] if answer.coordinators else answer
        if one.error_code:
            raise error_of(one.error_code, one.error_message)
        self.nodes[one.node_id] = (one.host, one.port)
        self._coordinators[(kind, key)] = one.node_id
        return one.node_id

    def forget_coordinator(self, key: str, kind: str = GROUP) -> None:
        self._coordinators.pop((kind, key), None)

    async def connection(self, node: int, purpose: str = MAIN) -> Connection:
        """A connection to this broker, opened if need be."""
        key = (node, purpose)
        found = self._usable(key)
        if found is not None:
            return found
        task = self._opening.get(key)
        if task is None:
            task = asyncio.ensure_future(self._open(key))
            self._opening[key] = task
            task.add_done_callback(_see)
            task.add_done_callback(lambda _: self._opening.pop(key, None))
        return await asyncio.shield(task)

    def connection_at_hand(self, node: int, purpose: str = MAIN) -> Connection | None:
        """The connection to this broker if it is open."""
        return self._usable((node, purpose))

    def _usable(self, key: tuple[int, str]) -> Connection | None:
        """The connection, unless it is closed, or its login is about to end."""
        found = self._connections.get(key)
        if found is None or found.closed:
            return None
        if found.is_stale:
            del self._connections[key]
            self._retire(found)
            return None
        return found

    def node_of(self, connection: Connection) -> int | None:
        """Which broker this is a connection to; a negative number for an address that was never named in the metadata."""
        found = (key[0] for key, each in self._connections.items() if each is connection)
        return next(found, None)

    def is_silent(self, node: int) -> bool:
        """Whether the broker leaves a request without an answer."""
        return any(each.is_silent for key, each in self._connections.items() if key[0] == node)

    def close_node(self, node: int, why: str) -> None:
        """Close all connections to the broker: what waits there is tried again."""
        for key in [each for each in self._connections if each[0] == node]:
            self._connections.pop(key).close(why)

    def note_brokers(self, answer: MetadataResponse) -> None:
        """These are the brokers that there are."""
        self.nodes = {each.node_id: (each.host, each.port) for each in answer.brokers}
        self.racks = {each.node_id: each.rack for each in answer.brokers}
        self.controller = answer.controller_id
        self.cluster_id = answer.cluster_id
        # A connection to a bootstrap address is one to whichever of them has that address.
        addresses = {f"{host}:{port}": node for node, (host, port) in self.nodes.items()}
        for key in [each for each in self._connections if each[0] < 0]:
            node = addresses.get(self._connections[key].address)
            if node is not None:
                self._keep((node, MAIN), self._connections.pop(key))

    def _keep(self, key: tuple[int, str], connection: Connection) -> None:
        before = self._connections.get(key)
        if before is not None:
            self._retire(before)
        self._connections[key] = connection

    def _retire(self, connection: Connection) -> None:
        connection.close_when_idle()
        self._retiring = [each for each in (*self._retiring, connection) if not each.closed]

    async def retrying(
        self, action: Callable[[], Awaitable[T]], timeout_s: float | None = None
    ) -> T:
        """Run `action` until it does not fail for a passing reason, or the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (
            self.settings.default_timeout_s if timeout_s is None else timeout_s
        )
        for pause in self.pauses():
            try:
                return await action()
            except KafkaError as error:
                if not error.retriable:
                    raise
                if isinstance(error, NotController):
                    self.controller = -1
                if loop.time() + pause >= deadline:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("the pauses never end")

    def pauses(self) -> Iterable[float]:
        """Seconds to wait before each retry, without end: doubling, with some chance in them."""
        pause = self.settings.retry_backoff_ms / 1000
        while True:
            yield pause * random.uniform(0.8, 1.2)
            pause = min(2 * pause, self.settings.retry_backoff_max_ms / 1000)

    async def drain(self, timeout_s: float) -> None:
        """Wait until all that was told without asking for an answer has left."""
        for connection in list(self._connections.values()):
            await connection.drain(timeout_s)

    async def close(self) -> None:
        """Close all connections, and give up those that are being opened."""
        await self._silence.close()
        tasks = [*self._opening.values(), *self._refreshing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.abandon()
        self._connections.clear()

    def abandon(self) -> None:
        """Close all connections without a word."""
        for connection in (*self._connections.values(), *self._retiring):
            connection.close()

    async def _open(self, key: tuple[int, str]) -> Connection:
        if key[0] not in self.nodes:
            raise NetworkException(f"broker {key[0]} is not in the metadata")
        connection = await self._dial(*self.nodes[key[0]])
        self._keep(key, connection)
        return connection

    async def _dial(self, host: str, port: int) -> Connection:
        return await Connection.open(
            host,
            port,
            client_id=self.settings.client_id,
            timeout_s=self.settings.connection_setup_timeout_ms / 1000,
            metrics=self.metrics,
            security=self._security,
            on_silence=self._silence.noticed,
        )

    async def _any_connection(self) -> Connection:
        """A connection that is open, else one to a broker that is known, else to a bootstrap address."""
        for key in list(self._connections):
            connection = self._usable(key)
            if connection is not None and key[1] == MAIN and not self.is_silent(key[0]):
                return connection
        for node in sorted(random.sample(list(self.nodes), len(self.nodes)), key=self.is_silent):
            try:
                return await self.connection(node)
            except NetworkException:
                continue
        return await self._bootstrap_connection()

    async def _bootstrap_connection(self) -> Connection:
        errors: list[str] = []
        first_contact = not self.nodes
        for _, pause in zip(range(_BOOTSTRAP_ROUNDS), self.pauses(), strict=False):
            errors.clear()
            for host, port in self.bootstrap:
                try:
                    connection = await self._dial(host, port)
                except NetworkException as error:
                    errors.append(str(error))
                    continue
                self._connections[(-1 - len(self._connections), MAIN)] = connection
                return connection
            await asyncio.sleep(pause)
        listed = ",".join(self.settings.bootstrap_servers)
        message = (
            f"no broker of bootstrap.servers={listed} can be reached ({'; '.join(errors)}); "
            "check the address, and that a broker listens there"
        )
        raise (_FirstContactFailed if first_contact else NetworkException)(message)

    async def _refresh(self, topics: frozenset[str] | None, create: bool) -> MetadataResponse:
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        answer = cast(MetadataResponse, await self.ask_any(request))
        self.note_brokers(answer)
        for topic in answer.topics:
            if topic.name and topic.error_code in (0, LeaderNotAvailable.code):
                info = self.topics[topic.name] = _info(topic, self.topics.get(topic.name))
                if self._on_topic is not None:
                    self._on_topic(info)
            elif topic.name:
                self.topics.pop(topic.name, None)
        return answer


class UnknownTopic(UnknownTopicOrPartition):
    """There is no such topic, and asking again will not change that."""

    retriable = False


class _FirstContactFailed(NetworkException):
    """No bootstrap address answered, and none ever has: not a passing fault."""

    retriable = False


def note_coordinator_error(cluster: Cluster, key: str, code: int, kind: str = GROUP) -> None:
    """Forget the coordinator if the code says that it is another broker."""
    if code in (NotCoordinator.code, CoordinatorNotAvailable.code):
        cluster.forget_coordinator(key, kind)


def _see(task: asyncio.Task[Any]) -> None:
    """Those who asked may all have been cancelled: then nobody is left to hear why it failed."""
    if not task.cancelled():
        task.exception()


def _info(topic: MetadataResponseTopic, known: TopicInfo | None) -> TopicInfo:
    """What a broker says, unless we know better: one that is behind names leaders that were deposed (KIP-320)."""
    leaders = {
        each.partition_index: Leader(each.leader_id, each.leader_epoch)
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    }
    if known is not None and known.id == topic.topic_id != ZERO_UUID:
        for index, leader in known.partitions.items():
            if index in leaders and 0 <= leaders[index].epoch < leader.epoch:
                leaders[index] = leader
    led = tuple(index for index, leader in leaders.items() if leader.node >= 0)
    candidates = Candidates(len(leaders), led)
    return TopicInfo(
        topic.name or "", topic.topic_id, topic.is_internal, leaders, candidates, topic
    )


def _topic_error(response: MetadataResponse, name: str) -> KafkaError | None:
    topic = next((each for each in response.topics if each.name == name), None)
    code = UnknownTopicOrPartition.code if topic is None else topic.error_code
    if code == UnknownTopicOrPartition.code:
        return UnknownTopicOrPartition(
            f"there is no topic {name!r}; create it first, or let the broker do so (auto.create.topics.enable)"
        )
    if code == InvalidTopicException.code:
        return InvalidTopicException(f"{name!r} is not a legal topic name")
    if code == TopicAuthorizationFailed.code:
        return TopicAuthorizationFailed(f"not allowed for topic {name!r}")
    if code == 0 and topic is not None and all(each.leader_id < 0 for each in topic.partitions):
        return LeaderNotAvailable(f"no partition of topic {name!r} has a leader")
    return error_of(code, f"metadata of topic {name!r}: {error_of(code)}") if code else None


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise SettingsError(f"bootstrap.servers={text!r} must be host:port, such as localhost:9092")
    return host.strip("[]"), int(port)
