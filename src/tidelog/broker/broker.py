"""A broker, put together: the only place that knows every part.

    broker = Broker(settings)
    await broker.start()            # StartError says in one line what is wrong
    broker.addresses                # where it listens
    await broker.stop()

Start, in order: metadata is read, the log directories are locked and loaded, the partitions are opened, the listeners are
bound, the broker registers, background work begins, and only then connections are accepted.  Stop goes the
other way: no new connections, what is in flight is answered, everything is synced, and the mark of a clean
stop is written.
"""

import asyncio
import contextlib
import errno
import logging
import resource
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast
from uuid import UUID, uuid4

from tidelog.broker.addresses import Listener as ListenerAddress
from tidelog.broker.addresses import endpoints
from tidelog.broker.adoption import adopt, metadata_of_kafka
from tidelog.broker.background import Background
from tidelog.broker.configs import check_topic_settings, in_force
from tidelog.broker.context import Services
from tidelog.broker.descriptors import share_of
from tidelog.broker.dispatch import Dispatcher, Handlers
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.internal_topics import automatic_topic, internal_config
from tidelog.broker.late import Late
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.replicas import Replicas
from tidelog.broker.settings import BrokerSettings
from tidelog.clock import Clock, SystemClock
from tidelog.cluster.controller import Controller
from tidelog.cluster.image import BROKER, Delta, Image, Topic
from tidelog.cluster.metadata import (
    BrokerRecord,
    MetadataError,
    PartitionChangeRecord,
    Record,
    topic_id_text,
)
from tidelog.cluster.partition import Partitions
from tidelog.cluster.tail import Tail, difference
from tidelog.cluster.topics import NewTopic, Rules
from tidelog.cluster.waiting import Waiting
from tidelog.errors import StartError
from tidelog.metastore.contract import (
    Metastore,
    MetastoreDamaged,
    MetastoreError,
    Session,
    SessionLost,
)
from tidelog.metastore.sqlite import SqliteMetastore
from tidelog.names import CONSUMER_OFFSETS, TopicPartition
from tidelog.network.hub import Hub
from tidelog.network.listener import Listener, open_socket
from tidelog.network.peer import Address
from tidelog.storage.checkpoints import META_PROPERTIES, read_properties
from tidelog.storage.config import LogConfig
from tidelog.storage.files import Files, LocalFiles
from tidelog.storage.flusher import Flusher
from tidelog.storage.manager import LogManager

if TYPE_CHECKING:  # imported when they are needed: a start must be quick
    from tidelog.coordination.groups.coordinator import GroupCoordinator
    from tidelog.storage.cleaner import Cleaner

log = logging.getLogger(__name__)

METADATA_FILE = "tidelog-metadata.db"
"""In the first log directory, unless a metastore is passed in."""

_DRAIN_SECONDS = 10.0
_REMOVE_FILES_EVERY_MS = 1_000
_CLEANER_DELAY_SECONDS = 1.0
"""Its modules are imported when the first clients have been served."""
_BETWEEN_IMPORTS_SECONDS = 0.002


class Broker:
    """One broker on one event loop."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        metastore: Metastore | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._files = files or LocalFiles()
        self._static = settings
        """As given at the start; dynamic settings go over them."""
        self._settings = settings
        directory = Path(settings.broker.log_dirs[0])
        self._metastore = metastore or SqliteMetastore(directory / METADATA_FILE, self._clock)
        self._background = Background()
        self._broker_id = settings.broker.broker_id
        self._listeners: list[Listener] = []
        self._session: Session | None = None
        self._hub: Hub | None = None
        self._logs: LogManager | None = None
        self._groups: Late | None = None
        self._sockets: list[tuple[socket.socket, ListenerAddress]] = []
        """Bound, and not yet given to a listener."""
        self._waiting: Waiting | None = None
        self._controller: Controller | None = None
        self._cleaner: Cleaner | None = None
        self._flusher = Flusher()
        self._share = share_of(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self.cluster_id = ""

    @property
    def addresses(self) -> list[Address]:
        """Where the broker listens."""
        return [each.address for each in self._listeners]

    async def start(self) -> None:
        """Come up, or raise `StartError` and leave nothing behind."""
        try:
            await self._start()
        except BaseException:
            await self._give_up()
            raise

    async def stop(self) -> None:
        """Answer what is in flight, sync, and leave the mark of a clean stop."""
        for listener in self._listeners:
            listener.close()
        if self._groups is not None and self._groups.is_made:
            await self._groups.stop()
        if self._waiting is not None:
            self._waiting.close()  # fetches that wait are answered with what there is
        if self._hub is not None:
            await self._hub.drain(_DRAIN_SECONDS)
        await self._background.stop()
        await self._flusher.settle()
        clean = self._logs is None or await asyncio.to_thread(self._logs.close)
        await self._metastore.close()
        if clean:
            log.info("stopped: every record is on the disk, and the next start scans nothing")
        else:
            log.warning(
                "stopped, but not everything could be synced: the next start scans the logs"
            )

    async def _start(self) -> None:
        tail = Tail(self._metastore)
        await self._open_metastore(tail)
        self._settings = in_force(self._static, tail.image, self._broker_id)
        logs = await self._open_logs(tail.image)
        self._bind()
        controller = await self._lead(tail)
        partitions = Partitions()
        replicas = Replicas(
            self._broker_id, logs, partitions, self._flusher, lambda: self._settings.log
        )
        services = self._make_services(tail, logs, partitions, controller)
        await controller.submit(lambda image: (self._first_records(image, logs), None))
        replicas.apply(tail.image, difference(Image(), tail.image))
        tail.subscribe(lambda image, delta: self._settings_changed(services, image, delta))
        tail.prepare(replicas.prepare)
        tail.subscribe(replicas.apply)
        self._start_groups(services, tail)
        self._start_background(tail, logs)
        self._accept(services)
        self._background.run("import of handlers", _import(services.handlers))

    # ------------------------------------------------------------------ steps of the start

    async def _open_metastore(self, tail: Tail) -> None:
        directory = self._settings.broker.log_dirs[0]
        try:
            self._files.make_directory(directory)
        except OSError as error:
            raise StartError(
                f"the data directory {directory} cannot be made: {error.strerror or error}; "
                "choose another with --data"
            ) from error
        try:
            await self._metastore.open()
            self.cluster_id = await self._metastore.cluster_id(self._proposed_cluster_id())
            await tail.load()
        except (MetastoreDamaged, MetadataError) as error:
            raise StartError(
                f"{error}; restore it from a backup, or move {METADATA_FILE}* away: "
                "the topics are then found again in their directories, without their settings"
            ) from error
        except MetastoreError as error:
            raise StartError(
                f"{error}; make the directory writable, or choose another with --data"
            ) from error

    def _proposed_cluster_id(self) -> str:
        """The id that the data directory has already, from Kafka perhaps, or a new one."""
        path = Path(self._settings.broker.log_dirs[0]) / META_PROPERTIES
        known = read_properties(self._files, str(path)) if self._files.exists(str(path)) else {}
        return known.get("cluster.id") or new_cluster_id()

    async def _open_logs(self, image: Image) -> LogManager:
        settings = self._settings
        logs = LogManager(
            settings.broker.log_dirs,
            files=self._files,
            clock=self._clock,
            config=settings.log,
            flusher=self._flusher,
            producer_expiration_ms=settings.broker.producer_id_expiration_ms,
            open_segments_max=self._share.segments,
        )

        def config_for(topic: str) -> LogConfig:
            given = image.topic_config(topic) or internal_config(topic, settings)
            return check_topic_settings(settings, given)

        # In a thread: after a crash gigabytes may have to be scanned, and a signal is to be heard meanwhile.
        start = partial(
            logs.start,
            broker_id=self._broker_id,
            cluster_id=self.cluster_id,
            config_for=config_for,
        )
        await asyncio.to_thread(start)
        self._logs = logs
        return logs

    def _bind(self) -> None:
        for each in self._settings.listeners():
            try:
                sock = open_socket(each.host, each.port, self._settings.network)
            except OSError as error:
                where = Address(each.host, each.port)
                raise StartError(f"cannot listen on {where}: {_cure(error, each.port)}") from error
            self._sockets.append((sock, each))

    async def _lead(self, tail: Tail) -> Controller:
        """Open the session and win the election: on its own, a broker is its own controller."""
        broker = self._settings.broker
        try:
            self._session = await self._metastore.open_session(
                self._broker_id, broker.session_timeout_ms
            )
            epoch = await self._metastore.lead(self._session)
        except MetastoreError as error:
            raise StartError(str(error)) from error
        if epoch is None:
            raise StartError("another broker is the controller of this metadata; stop it first")
        controller = Controller(self._metastore, tail, epoch, self._rules, self._automatic)
        self._controller = controller
        return controller

    def _make_services(
        self, tail: Tail, logs: LogManager, partitions: Partitions, controller: Controller
    ) -> Services:
        loop = asyncio.get_running_loop()
        waiting = self._waiting = Waiting(self._clock, loop)

        def make_groups() -> "GroupCoordinator":
            from tidelog.coordination.groups.coordinator import GroupCoordinator

            return GroupCoordinator(
                clock=self._clock,
                image=lambda: tail.image,
                partitions=partitions,
                ensure_topic=controller.ensure_topic,
                config=lambda: self._settings.groups,
                call_later=loop.call_later,
            )

        self._groups = Late(make_groups)
        return Services(
            broker_id=self._broker_id,
            cluster_id=self.cluster_id,
            settings=self._settings,
            clock=self._clock,
            image=lambda: tail.image,
            partitions=partitions,
            logs=logs,
            controller=controller,
            groups=cast("GroupCoordinator", self._groups),
            producer_ids=ProducerIds(controller),
            waiting=waiting,
            fetch_sessions=FetchSessions(self._settings.broker.max_fetch_sessions, self._clock),
        )

    def _first_records(self, image: Image, logs: LogManager) -> list[Record]:
        """What the cluster must know of this start: where the broker is, and whether it had crashed."""
        bound = [each._replace(port=sock.getsockname()[1]) for sock, each in self._sockets]
        told = endpoints(bound, self._settings.advertised())
        records: list[Record] = [
            BrokerRecord(self._broker_id, told, self._settings.broker.rack or None)
        ]
        records += adopt(
            image,
            logs,
            self._broker_id,
            new_topic_id,
            lambda topic: internal_config(topic, self._settings),
            lambda: metadata_of_kafka(self._files, self._settings.broker.log_dirs),
        )
        if not all(each.clean for each in logs.directories):
            # Records that no disk had may be lost: a new epoch lets readers notice (KIP-320).
            records += _new_epochs(image, self._broker_id)
        return records

    def _start_groups(self, services: Services, tail: Tail) -> None:
        """Load the groups that there are; a broker without any waits for the first."""
        if CONSUMER_OFFSETS in tail.image.topics:
            # Produce and fetch need not wait for it.
            asyncio.get_running_loop().call_soon(lambda: services.groups.start())
        tail.subscribe(lambda _, delta: self._groups_follow(services, delta))

    def _groups_follow(self, services: Services, delta: Delta) -> None:
        for topic in delta.created:
            if topic.name == CONSUMER_OFFSETS:
                services.groups.start()
        if delta.deleted and self._groups is not None and self._groups.is_made:
            names = [topic.name for topic in delta.deleted]
            self._background.run("deletion of offsets", services.groups.topics_deleted(names))

    def _start_background(self, tail: Tail, logs: LogManager) -> None:
        broker = self._settings.broker
        every = self._background.every
        every("retention", broker.retention_check_interval_ms, logs.apply_retention)
        every("removal of files", _REMOVE_FILES_EVERY_MS, logs.remove_files)
        every("flush by time", broker.flush_scheduler_interval_ms, logs.flush_by_time)
        checkpoint_ms = min(
            broker.recovery_checkpoint_interval_ms, broker.start_offset_checkpoint_interval_ms
        )
        every("checkpoint", checkpoint_ms, logs.checkpoint)
        every("heartbeat", broker.heartbeat_interval_ms, self._heartbeat)

        async def expire() -> None:
            logs.expire_producers()

        every("expiry of producers", broker.producer_id_expiration_check_interval_ms, expire)
        self._background.run("metadata", tail.run())
        if self._settings.cleaner.enable:
            self._background.run("cleaner", self._clean(tail, logs))

    async def _clean(self, tail: Tail, logs: LogManager) -> None:
        await asyncio.sleep(_CLEANER_DELAY_SECONDS)
        from tidelog.storage.cleaner import Cleaner

        self._cleaner = Cleaner(
            logs=lambda: logs,
            config=self._settings.cleaner,
            files=self._files,
            clock=self._clock,
            flusher=self._flusher,
        )
        tail.subscribe(self._cleaner_follows)
        await self._cleaner.run()

    def _cleaner_follows(self, _: Image, delta: Delta) -> None:
        if delta.deleted:
            self._background.run("cleaner's notes", self._forget(delta.deleted))

    async def _forget(self, topics: list[Topic]) -> None:
        assert self._cleaner is not None
        for topic in topics:
            for index in range(len(topic.partitions)):
                await self._cleaner.forget(TopicPartition(topic.name, index))

    def _accept(self, services: Services) -> None:
        loop = asyncio.get_running_loop()
        dispatcher = Dispatcher(services)
        self._hub = Hub(
            dispatcher.serve, self._settings.network, loop, serve_run=dispatcher.serve_run
        )
        self._hub.admission.most = self._share.connections
        sockets, self._sockets = self._sockets, []
        for sock, each in sockets:
            listener = Listener(sock, each.name, self._hub)
            self._listeners.append(listener)
            listener.start()

    # ------------------------------------------------------------------ while it runs

    async def _heartbeat(self) -> None:
        assert self._session is not None
        try:
            await self._metastore.heartbeat(self._session)
        except SessionLost:
            # Hung for too long.  Nobody else can have taken over while the data directory is locked.
            log.warning("the broker's session was lost; a new one is opened")
            timeout_ms = self._settings.broker.session_timeout_ms
            self._session = await self._metastore.open_session(self._broker_id, timeout_ms)
            epoch = await self._metastore.lead(self._session)
            if epoch is not None and self._controller is not None:
                self._controller.epoch = epoch

    def _settings_changed(self, services: Services, image: Image, delta: Delta) -> None:
        if any(kind == BROKER for kind, _ in delta.configs):
            self._settings = in_force(self._static, image, self._broker_id)
            services.settings = self._settings
            services.logs.config = self._settings.log
            if self._hub is not None:
                self._hub.set_config(self._settings.network)
            if self._cleaner is not None:
                self._cleaner.config = self._settings.cleaner
            log.info("the settings of the broker have changed")

    def _rules(self) -> Rules:
        broker = self._settings.broker

        def check(configs: Mapping[str, str]) -> None:
            check_topic_settings(self._settings, configs)

        return Rules(
            partitions=broker.num_partitions,
            replication_factor=broker.default_replication_factor,
            check_config=check,
            new_id=new_topic_id,
        )

    def _automatic(self, name: str) -> NewTopic:
        assert self._controller is not None
        brokers = len(self._controller.image.brokers)
        return automatic_topic(name, self._settings, brokers)

    async def _give_up(self) -> None:
        """A start that failed: let go of what was taken."""
        for sock, _ in self._sockets:
            sock.close()
        await self._background.stop()
        if self._logs is not None:
            self._logs.release()
        with contextlib.suppress(MetastoreError):
            await self._metastore.close()


def new_topic_id() -> UUID:
    """Random, and never one whose text begins with a dash, which command lines would take for an option."""
    while True:
        topic_id = uuid4()
        if not topic_id_text(topic_id).startswith("-"):
            return topic_id


def new_cluster_id() -> str:
    """22 characters of base64url, as Kafka's."""
    return topic_id_text(new_topic_id())


async def _import(handlers: Handlers) -> None:
    """Import the handlers one by one, so that no client has to wait for all of them."""
    while handlers.load_next():  # noqa: ASYNC110
        await asyncio.sleep(_BETWEEN_IMPORTS_SECONDS)


def _new_epochs(image: Image, broker_id: int) -> list[Record]:
    return [
        PartitionChangeRecord(topic.id, index, leader=broker_id)
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if state.leader == broker_id
    ]


def _cure(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use; stop what uses it, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights; choose one above 1023 with --port"
    return f"{error.strerror or error}; choose another address with --listen"
