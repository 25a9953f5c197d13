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
import logging
import os
import resource
import socket
import time
from functools import partial
from random import Random
from typing import TYPE_CHECKING, cast
from uuid import UUID

from tidelog.broker.addresses import Listener as ListenerAddress
from tidelog.broker.addresses import cure_of, endpoints
from tidelog.broker.adoption import adopt, metadata_of_kafka
from tidelog.broker.background import Background
from tidelog.broker.boot import this_boot
from tidelog.broker.configs import check_topic_settings, in_force, warn_of_own
from tidelog.broker.context import Services
from tidelog.broker.coordinators import Coordinators
from tidelog.broker.descriptors import share_of
from tidelog.broker.dispatch import Dispatcher, Intercept, Serving
from tidelog.broker.ending import Ending
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.internal_topics import internal_config
from tidelog.broker.late import Late
from tidelog.broker.limits import BrokerLimits
from tidelog.broker.member import Member, new_topic_id, proposed_cluster_id
from tidelog.broker.metastores import METADATA_FILE, metastore_of
from tidelog.broker.missing_logs import lacks_a_directory, may_lack_records
from tidelog.broker.monitoring import Monitoring, Parts
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.replicas import Replicas
from tidelog.broker.replication import Replication
from tidelog.broker.security import BrokerSecurity
from tidelog.broker.settings import BrokerSettings
from tidelog.clock import Clock, SystemClock
from tidelog.cluster.image import BROKER, CLUSTER, Delta, Image, Topic
from tidelog.cluster.metadata import BrokerRecord, MetadataError, NewerMetadata, Record
from tidelog.cluster.partitions import Partitions
from tidelog.cluster.tail import Tail
from tidelog.cluster.throttle import Throttle
from tidelog.cluster.waiting import Waiting
from tidelog.errors import SettingsError, StartError
from tidelog.metastore.contract import Metastore, MetastoreDamaged, MetastoreError
from tidelog.names import TopicPartition
from tidelog.network.hub import Hub
from tidelog.network.listener import Listener, OpenSocket, open_socket
from tidelog.network.peer import Address
from tidelog.network.watchdog import Watchdog
from tidelog.quotas.quotas import Quotas
from tidelog.storage.config import LogConfig
from tidelog.storage.files import Files, LocalFiles
from tidelog.storage.flusher import Flusher
from tidelog.storage.last_life import NO_EPOCH
from tidelog.storage.manager import LogManager

if TYPE_CHECKING:  # imported when they are needed: a start must be quick
    from tidelog.broker.telemetry import Telemetry
    from tidelog.storage.cleaner import Cleaner

log = logging.getLogger(__name__)

_DRAIN_SECONDS = 10.0
_REMOVE_FILES_EVERY_MS = 1_000
_CLEANER_DELAY_SECONDS = 1.0
"""Its modules are imported when the first clients have been served."""


class Broker:
    """One broker on one event loop."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        metastore: Metastore | None = None,
        network: OpenSocket = open_socket,
        random: Random | None = None,
        boot_id: str | None = None,
        intercept: Intercept | None = None,
        metrics: socket.socket | None = None,
        accept_empty: bool = False,
    ) -> None:
        """`metrics` is a bound socket for /metrics and its like; without it `metrics.listener` says where they are.

        `accept_empty`: what the cluster believes to be in a directory that is empty is gone for good.
        """
        self._clock = clock or SystemClock()
        self._files = files or LocalFiles()
        self._open_socket = network
        self._random = random or Random()
        # Nonces must not be guessed; a simulation, which passes its own chance, has nobody who would.
        self._random_bytes = os.urandom if random is None else random.randbytes
        self._boot_id = this_boot() if boot_id is None else boot_id
        self._static = settings
        """As given at the start; dynamic settings go over them."""
        self._settings = settings
        self._metastore = metastore or metastore_of(settings, self._clock)
        self._intercept = intercept
        self._watchdog = Watchdog(self._clock.monotonic)
        self._ending = Ending(self.abort)
        self._background = Background(self._ending.failed, self._watchdog)
        self._broker_id = settings.broker.broker_id
        self._listeners: list[Listener] = []
        self._hub: Hub | None = None
        self._logs: LogManager | None = None
        self._coordinators: Coordinators | None = None
        self._member: Member | None = None
        self._security: BrokerSecurity | None = None
        self._replication: Replication | None = None
        self._limits: BrokerLimits | None = None
        self._sockets: list[tuple[socket.socket, ListenerAddress]] = []
        """Bound, and not yet given to a listener."""
        self._waiting: Waiting | None = None
        self._cleaner: Cleaner | None = None
        self._flusher = Flusher()
        self._metrics_socket = metrics
        self._accept_empty = accept_empty
        self.monitoring = Monitoring(self._clock, time.thread_time, self._background)
        self._share = share_of(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self.cluster_id = ""

    @property
    def ended(self) -> asyncio.Event:
        """Set when the broker has ended by itself, because it could not go on."""
        return self._ending.done

    @property
    def addresses(self) -> list[Address]:
        """Where the broker listens."""
        return [each.address for each in self._listeners]

    async def start(self) -> None:
        """Come up, or raise `StartError` and leave nothing behind."""
        try:
            with self._ending.watched_start():
                await self._start()
        except BaseException:
            if self._listeners:
                await self.stop()  # it served already, and waited for the controller to let it lead
            else:
                await self._give_up()
            raise

    async def stop(self) -> None:
        """Hand over what it leads, answer what is in flight, sync, and leave the mark of a clean stop."""
        self._ending.expected = True
        if self._ending.has_begun:
            await self.ended.wait()
            return
        self.monitoring.doing = "stopping"
        if self._security is not None:
            await self._security.settle_trail()
        if self._member is not None:
            await self._member.hand_over()
        if self._replication is not None:
            await self._replication.stop()  # not to begin following what has just been handed over
        for listener in self._listeners:
            listener.close()
        if self._coordinators is not None:
            await self._coordinators.stop()
        if self._waiting is not None:
            self._waiting.close()  # fetches that wait are answered with what there is
        if self._hub is not None:
            await self._hub.drain(_DRAIN_SECONDS)
        await self._background.stop()
        if self._security is not None:
            await self._security.close_trail()
        if self._replication is not None:
            await self._replication.stop()
        if self._member is not None:
            await self._member.leave()
        await self._flusher.settle()
        await self.monitoring.close()
        self._watchdog.close()
        clean = self._logs is None or await asyncio.to_thread(self._logs.close)
        await self._metastore.close()
        if clean:
            log.info("stopped: every record is on the disk, and the next start scans nothing")
        else:
            log.warning(
                "stopped, but not everything could be synced: the next start scans the logs"
            )

    async def abort(self) -> None:
        """End as a crash would: nobody is answered, nothing synced, no mark of a clean stop left."""
        self._ending.expected = True
        for listener in self._listeners:
            listener.close()
        if self._hub is not None:
            self._hub.abort()
        await self._background.stop()
        if self._coordinators is not None:
            await self._coordinators.stop()
        if self._replication is not None:
            await self._replication.stop()
        if self._member is not None:
            await self._member.leave()
        await self.monitoring.close()
        self._watchdog.close()
        await self._flusher.settle()
        if self._logs is not None:
            self._logs.close(clean=False)
        await self._metastore.close()

    async def _start(self) -> None:
        await self._open_pages()
        tail = Tail(self._metastore)
        security = self._security = self._make_security(tail)
        await self._open_metastore(tail)
        self._settings = in_force(self._static, tail.image, self._broker_id)
        empty = lacks_a_directory(self._files, self._static.broker, tail.image)
        if empty and not self._accept_empty:
            raise StartError(empty)
        self.monitoring.doing = "checking and opening its logs"
        logs = await self._open_logs(tail.image)
        self._bind()
        self.monitoring.doing = "waiting to be registered with the controller"
        member = self._member = Member(
            metastore=self._metastore,
            tail=tail,
            settings=lambda: self._settings,
            cluster_id=self.cluster_id,
            background=self._background,
            clock=self._clock,
            random=self._random,
            security=security.as_client(),
        )
        await member.join()
        partitions = Partitions(lambda: tail.image)
        replication = self._replication = Replication(
            broker_id=self._broker_id,
            image=lambda: tail.image,
            partitions=partitions,
            peers=member.peers,
            alter=member.control.alter_partition,
            assign=member.control.assign_directories,
            unclean=member.may_be_unclean,
            clock=self._clock,
            random=self._random,
            flusher=self._flusher,
            settings=lambda: self._settings,
        )
        replicas = Replicas(
            self._broker_id,
            logs,
            partitions,
            self._flusher,
            lambda: self._settings.log,
            replication,
            begins_empty=bool(empty),
        )
        services = self._make_services(tail, logs, partitions, member)
        lacking = may_lack_records(tail.image, self._broker_id, logs)
        await member.register(
            self._record(),
            last_epoch=NO_EPOCH if lacking else logs.last_epoch(self._boot_id),
            registered=partial(logs.begin_life, self._boot_id),
            adopted=lambda image: self._adopted(image, logs),
        )
        self._take_settings(services, tail.image)
        replicas.resume(tail.image)
        tail.subscribe(lambda image, delta: self._settings_changed(services, image, delta))
        tail.prepare(replicas.prepare)
        tail.subscribe(replicas.apply)
        assert self._coordinators is not None
        self._coordinators.start(tail.image)
        tail.subscribe(self._coordinators.follow)
        self._start_background(tail, logs)
        limits = self._accept(services)
        tail.subscribe(lambda image, _: limits.follow(image.access.limits))
        importing = services.handlers.load_all()  # once, in the first seconds
        self._background.run("import of handlers", importing, watched=False)
        await replication.offline.tell()
        await member.take_part()
        self._tell(services)

    # ------------------------------------------------------------------ steps of the start

    async def _open_pages(self) -> None:
        """/healthz and /readyz first: whoever looks after the broker is to see it alive while it starts."""
        sock, where = self._metrics_socket, self._settings.metrics_listener()
        try:
            if sock is None and where is not None:
                sock = self._open_socket(where.host, where.port, self._settings.network)
            if sock is not None:
                await self.monitoring.open(sock)
        except OSError as error:
            port = 0 if where is None else where.port
            raise StartError(
                f"cannot serve metrics on port {port}: {error.strerror or error}; choose another with --metrics"
            ) from error

    def _tell(self, services: Services) -> None:
        assert self._hub is not None
        assert self._member is not None
        assert self._replication is not None
        assert self._coordinators is not None
        assert self._security is not None
        self.monitoring.started(
            Parts(
                services=services,
                hub=self._hub,
                flusher=self._flusher,
                member=self._member,
                replication=self._replication,
                coordinators=self._coordinators,
                cleaner=lambda: self._cleaner,
                logins=self._security.logins,
            )
        )

    def _make_security(self, tail: Tail) -> BrokerSecurity:
        try:
            return BrokerSecurity(
                lambda: self._settings, lambda: tail.image, self._clock, self._random_bytes
            )
        except SettingsError as error:
            raise StartError(str(error)) from error

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
            self.cluster_id = await self._metastore.cluster_id(
                proposed_cluster_id(self._settings.broker.log_dirs, self._files, self._random)
            )
            await tail.load()
        except NewerMetadata as error:
            raise StartError(f"{error}: update this broker") from error
        except (MetastoreDamaged, MetadataError) as error:
            raise StartError(
                f"{error}; restore it from a backup, or move {METADATA_FILE}* away: "
                "the topics are then found again in their directories, without their settings"
            ) from error
        except MetastoreError as error:
            cure = (
                "start it, or correct --metastore"
                if self._settings.cluster.metastore
                else "make the directory writable, or choose another with --data"
            )
            raise StartError(f"{error}; {cure}") from error

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
                sock = self._open_socket(each.host, each.port, self._settings.network)
            except OSError as error:
                where = Address(each.host, each.port)
                raise StartError(
                    f"cannot listen on {where}: {cure_of(error, each.port)}"
                ) from error
            self._sockets.append((sock, each))

    def _make_services(
        self, tail: Tail, logs: LogManager, partitions: Partitions, member: Member
    ) -> Services:
        loop = asyncio.get_running_loop()
        waiting = self._waiting = Waiting(self._clock, loop)

        producer_ids = ProducerIds(member.control)
        self._coordinators = Coordinators(
            broker_id=self._broker_id,
            clock=self._clock,
            settings=lambda: self._settings,
            image=lambda: tail.image,
            partitions=partitions,
            peers=member.peers,
            ensure_topic=member.control.ensure_topic,
            new_producer_id=producer_ids.next,
            background=self._background,
            random=self._random,
            lease=member.lease,
        )
        assert self._security is not None
        return Services(
            broker_id=self._broker_id,
            cluster_id=self.cluster_id,
            settings=self._settings,
            clock=self._clock,
            image=lambda: tail.image,
            partitions=partitions,
            logs=logs,
            controller=member.control,
            groups=self._coordinators.groups,
            transactions=self._coordinators.transactions,
            authorizer=self._security.authorizer,
            trail=self._security.trail,
            producer_ids=producer_ids,
            waiting=waiting,
            lease=member.lease,
            leader_throttle=Throttle(
                self._clock, lambda: self._settings.replication.leader_throttled_rate
            ),
            fetch_sessions=FetchSessions(self._settings.broker.max_fetch_sessions, self._clock),
            quotas=Quotas(lambda: self._settings.quotas),
            watchdog=self._watchdog,
            telemetry=cast("Telemetry", Late(self._make_telemetry)),
        )

    def _make_telemetry(self) -> "Telemetry":
        from tidelog.broker.telemetry import Telemetry

        return Telemetry(
            self._clock,
            lambda: self._settings.monitoring,
            lambda: UUID(int=self._random.getrandbits(128), version=4),
        )

    def _record(self) -> BrokerRecord:
        """Where this broker is."""
        bound = [each._replace(port=sock.getsockname()[1]) for sock, each in self._sockets]
        machine = (
            socket.gethostname() if self._settings.cluster.metastore.startswith("zk:") else None
        )
        told = endpoints(bound, self._settings.advertised(), machine)
        return BrokerRecord(self._broker_id, told, self._settings.broker.rack or None)

    def _adopted(self, image: Image, logs: LogManager) -> list[Record]:
        return adopt(
            image,
            logs,
            self._broker_id,
            lambda: new_topic_id(self._random),
            lambda topic: internal_config(topic, self._settings),
            lambda: metadata_of_kafka(self._files, self._settings.broker.log_dirs),
        )

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
        watermarks_ms = broker.high_watermark_checkpoint_interval_ms
        every("note of high watermarks", watermarks_ms, logs.checkpoint_high_watermarks)
        assert self._replication is not None
        self._replication.start(self._background)
        expiry_ms = broker.producer_id_expiration_check_interval_ms
        every("expiry of producers", expiry_ms, logs.expire_producers)
        self._background.run("metadata", tail.run(), vital=True)
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
            note=logs.note_recovery_point,
        )
        tail.subscribe(self._cleaner_follows)
        assert self._replication is not None
        self._replication.tell_of_truncations(self._cleaner.truncated)
        await self._cleaner.run()

    def _cleaner_follows(self, _: Image, delta: Delta) -> None:
        if delta.deleted:
            self._background.run("cleaner's notes", self._forget(delta.deleted))

    async def _forget(self, topics: list[Topic]) -> None:
        assert self._cleaner is not None
        for topic in topics:
            for index in range(len(topic.partitions)):
                await self._cleaner.forget(TopicPartition(topic.name, index))

    def _accept(self, services: Services) -> BrokerLimits:
        loop = asyncio.get_running_loop()
        assert self._security is not None
        limits = self._limits = BrokerLimits(services, lambda: self._settings, Dispatcher(services))
        serving: Serving = self._security.gate(limits.metering)
        self._security.start_trail(
            self._background, lambda: self.addresses, services.controller.ensure_topic
        )
        if self._intercept is not None:
            serving = self._intercept(serving, services)
        self._hub = Hub(
            serving.serve,
            self._settings.network,
            loop,
            serve_run=serving.serve_run,
            now=self._clock.monotonic,
            watchdog=self._watchdog,
        )
        self._hub.admission.most = self._share.connections
        limits.start(self._hub, serving, services.image().access.limits, self._background)
        sockets, self._sockets = self._sockets, []
        for sock, each in sockets:
            listener = Listener(
                sock,
                each.name,
                self._hub,
                self._security.tls_for(each),
                largest=self._security.largest_before_login(each),
            )
            self._listeners.append(listener)
            try:
                listener.start()
            except OSError as error:
                raise StartError(
                    f"cannot listen on {listener.address}: {cure_of(error, each.port)}"
                ) from error
        return limits

    # ------------------------------------------------------------------ while it runs

    def _settings_changed(self, services: Services, image: Image, delta: Delta) -> None:
        if any(kind in (BROKER, CLUSTER) for kind, _ in delta.configs):
            self._take_settings(services, image)
            if self._hub is not None:
                self._hub.set_config(self._settings.network)
            if self._limits is not None:
                self._limits.settings_changed()
            if self._cleaner is not None:
                self._cleaner.config = self._settings.cleaner
            log.info("the settings of the broker have changed")

    def _take_settings(self, services: Services, image: Image) -> None:
        """Go by the image's settings."""
        self._settings = in_force(self._static, image, self._broker_id)
        services.settings = self._settings
        services.logs.config = self._settings.log
        warn_of_own(self._static, image)

    async def _give_up(self) -> None:
        """A start that failed: let go of what was taken."""
        for sock, _ in self._sockets:
            sock.close()
        await self.monitoring.close()
        await self._background.stop()
        self._watchdog.close()
        if self._logs is not None:
            self._logs.release()
        with contextlib.suppress(MetastoreError):
            await self._metastore.close()
