"""The handle: sessions, election, log and ticks over a ZooKeeper ensemble.

    /cluster               the cluster's id
    /sessions/<member>     a lease (lease.py)
    /controller            member, epoch and token of whoever was elected last
    /log, /snapshot, …     the metadata log (log.py)

All of it is below the chroot, which is made when it is not there.  Ticks cost no request while nothing changes: the three
things they are made of are kept in memory, and a watch of ZooKeeper's says which of them to read again.

While no server answers, requests are repeated for `patience` seconds and then raise `MetastoreError`; the next one tries
again.  Leases may survive such a time, because an ensemble without a leader ends no session.

Absent: SASL towards ZooKeeper (Kerberos, DIGEST-MD5); its scheme `digest` is enough for a password.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from functools import partial

from kazoo.exceptions import NodeExistsError

from tidelog.clock import Clock
from tidelog.metastore.access import NOBODY, ZooKeeperAccess
from tidelog.metastore.contract import (
    Controller,
    Entry,
    Metastore,
    Session,
    SessionLost,
    Snapshot,
    Tick,
    Wakeups,
)
from tidelog.metastore.zookeeper.ensemble import Check, Ensemble, Refused, Step, Unanswered, Write
from tidelog.metastore.zookeeper.lease import Lease, session_path, token_of
from tidelog.metastore.zookeeper.log import Log, decode_controller, encode_controller

_READING_TIMEOUT_MS = 6_000
"""Session timeout of the connection that reads and appends; no lease depends on it."""


class ZooKeeperMetastore(Metastore):
    """A handle on what is below `chroot` ("" for everything) in the ensemble of `servers`, each "host:port"."""

    def __init__(
        self,
        servers: Sequence[str],
        chroot: str,
        clock: Clock,
        *,
        patience: float = 10.0,
        access: ZooKeeperAccess = NOBODY,
    ) -> None:
        super().__init__()
        self._root = chroot
        self._clock = clock
        self._wakeups = Wakeups()
        self._connect = partial(
            Ensemble, servers, on_change=self._wakeups.ring, patience=patience, access=access
        )
        self._ensemble = self._connect(_READING_TIMEOUT_MS)
        self._log = Log(self._ensemble, chroot)
        self._leases: dict[str, Lease] = {}
        self._view = _View(self._ensemble, self._log, chroot, self._wakeups.ring)

    async def open(self) -> None:
        await self._ensemble.open()
        try:
            await self._make_nodes()
        except BaseException:
            await self._ensemble.close()
            raise

    async def _make_nodes(self) -> None:
        by = self._ensemble.deadline()
        names = self._root.split("/")
        for depth in range(2, len(names) + 1):
            await self._ensure("/".join(names[:depth]), b"", by)
        for path, data in {"/sessions": b"", **self._log.nodes()}.items():
            await self._ensure(self._root + path, data, by)

    async def close(self) -> None:
        for lease in list(self._leases.values()):
            await self.close_session(lease.session)
        await self._ensemble.close()

    async def cluster_id(self, proposal: str) -> str:
        by = self._ensemble.deadline()
        path = f"{self._root}/cluster"
        await self._ensure(path, proposal.encode(), by)
        return (await self._ensemble.get(path, by))[0].decode()

    async def _ensure(self, path: str, data: bytes, by: float) -> None:
        """Create a node unless it is there."""
        while await self._ensemble.maybe_get(path, by) is None:
            try:
                await self._ensemble.create(path, data, by)
            except (Unanswered, NodeExistsError):
                await self._ensemble.sync(path, by)

    # Sessions

    async def open_session(self, member: int, timeout_ms: int) -> Session:
        wish = Session(member, secrets.token_hex(8), timeout_ms)
        connection = self._connect(timeout_ms, one_session=True)
        lease = await Lease.take(connection, self._root, wish, self._clock)
        self._leases[lease.session.token] = lease
        self._set_deadline(lease.session, lease.sure_until)
        self._view.look_again("sessions", behind=True)
        return lease.session

    async def heartbeat(self, session: Session) -> None:
        try:
            lease = self._lease(session)
            await lease.heartbeat()
        except SessionLost:
            await self.close_session(session)
            raise
        if session.token in self._leases:
            self._set_deadline(session, lease.sure_until)

    async def close_session(self, session: Session) -> None:
        lease = self._leases.pop(session.token, None)
        self._forget_deadline(session)
        if lease is not None:
            await lease.close()
            self._view.look_again("sessions", "controller", behind=True)

    def _lease(self, session: Session) -> Lease:
        lease = self._leases.get(session.token)
        if lease is None:
            raise SessionLost(f"the session of broker {session.member} is over")
        lease.check()
        return lease

    # Election

    async def lead(self, session: Session) -> int | None:
        lease = self._lease(session)
        by = lease.ensemble.deadline()
        path = f"{self._root}/controller"
        # Over the lease's own connection: once the lease has ended, nothing of this is carried out.
        while True:
            data, version = await lease.ensemble.get(path, by)
            present, token = decode_controller(data)
            if token == session.token:
                break
            if await self._is_live(lease.ensemble, present.member, token, by):
                return None
            next_one = Controller(session.member, present.epoch + 1)
            steps: list[Step] = [
                Check(session_path(self._root, session.member)),
                Write(path, encode_controller(next_one, session.token), version),
            ]
            try:
                outcome = await lease.ensemble.commit(steps, by)
            except Unanswered:
                await lease.ensemble.sync(path, by)
                continue
            if isinstance(outcome, Refused) and outcome.step == 0:
                raise SessionLost(f"the session of broker {session.member} is over")
        # What the log's connection reads from now on has everything that came before this election.
        self._view.look_again("log", "controller", "sessions", behind=True)
        await self._view.catch_up()
        return present.epoch

    async def controller(self) -> Controller | None:
        by = self._ensemble.deadline()
        controller, token, _ = await self._log.controller(by)
        alive = await self._is_live(self._ensemble, controller.member, token, by)
        return controller if alive else None

    async def _is_live(self, ensemble: Ensemble, member: int, token: str, by: float) -> bool:
        if not token:
            return False
        return token_of(await ensemble.maybe_get(session_path(self._root, member), by)) == token

    # The log

    async def append(self, epoch: int, data: bytes) -> int:
        number = await self._log.append(epoch, data)
        self._view.look_again("log")
        return number

    async def read(self, after: int, limit: int = 1000) -> list[Entry]:
        await self._view.catch_up()
        return await self._log.read(after, limit)

    async def snapshot(self) -> Snapshot | None:
        await self._view.catch_up()
        return await self._log.snapshot()

    async def save_snapshot(self, epoch: int, snapshot: Snapshot) -> None:
        await self._log.save_snapshot(epoch, snapshot)

    # Waiting

    async def tick(self) -> Tick:
        return await self._view.tick()

    def wakeups(self) -> Wakeups:
        return self._wakeups


class _View:
    """What ticks are made of: kept, and read again when a watch says so."""

    def __init__(self, ensemble: Ensemble, log: Log, root: str, ring: Callable[[], None]) -> None:
        self._ensemble = ensemble
        self._log = log
        self._root = root
        self._ring = ring
        self._reading = asyncio.Lock()
        self._stale = {"log", "controller", "sessions"}
        self._behind = False
        """Whether our server may not know yet what this process knows."""
        self._session = 0
        self._tick = Tick(0, 0, frozenset())
        self._watches = {part: partial(self._went_off, part) for part in self._stale}
        """One for each part, for ever: kazoo keeps a set of them for each path."""

    def look_again(self, *parts: str, behind: bool = False) -> None:
        self._stale.update(parts)
        self._behind = self._behind or behind
        self._ring()

    async def catch_up(self) -> None:
        # A new ZooKeeper session may be with a server that is behind the one we had.
        if self._behind or self._session != self._ensemble.sessions:
            session = self._ensemble.sessions
            self._behind = False
            try:
                await self._ensemble.sync(self._root or "/", self._ensemble.deadline())
            except BaseException:
                self._behind = True
                raise
            self._session = session

    async def tick(self) -> Tick:
        async with self._reading:
            await self.catch_up()
            for part in sorted(self._stale):
                # First: a watch that goes off while we read makes it stale again.
                self._stale.discard(part)
                try:
                    self._tick = await self._look(part)
                except BaseException:
                    self._stale.add(part)
                    raise
            return self._tick

    async def _look(self, part: str) -> Tick:
        by = self._ensemble.deadline()
        watch, path = self._watches[part], f"{self._root}/{part}"
        if part == "sessions":
            names = await self._ensemble.children(path, by, watch)
            found = await asyncio.gather(
                *(self._ensemble.maybe_get(f"{path}/{name}", by) for name in names)
            )
            live = ((int(name), token_of(data)) for name, data in zip(names, found, strict=True))
            return self._tick._replace(
                sessions=frozenset((member, token) for member, token in live if token is not None)
            )
        data, _ = await self._ensemble.get(path, by, watch)
        if part == "log":
            return self._tick._replace(log_end=int(data))
        return self._tick._replace(controller_epoch=decode_controller(data)[0].epoch)

    def _went_off(self, part: str, _: object) -> None:
        """A watch; runs in kazoo's thread, also when the connection is gone and its watches with it."""
        self._ensemble.on_loop(partial(self.look_again, part))
