"""A member's lease in ZooKeeper: an ephemeral node `/sessions/<member>` that holds the lease's token.

Each lease has a connection of its own, whose ZooKeeper session has the lease's timeout: the two end together, and
an end is final.  kazoo keeps a connection alive from its own thread, even while the event loop of the process
hangs; so a watchdog ends the lease when `heartbeat` was not called for as long as the timeout.
"""

import contextlib
import json
import threading
from typing import Self

from kazoo.exceptions import NodeExistsError

from tidelog.clock import Clock
from tidelog.metastore.contract import MemberTaken, MetastoreError, Session, SessionLost
from tidelog.metastore.zookeeper.ensemble import Delete, Ensemble, Unanswered

_SURE = 0.75
"""How much of the timeout a member may count on after a heartbeat was sent.

A follower of the ensemble tells the leader twice in a tick whom it has heard from; if it dies before, the leader counts from
half a tick earlier.  The smallest session timeout is two ticks, so half a tick is at most a quarter of it.
"""


def session_path(root: str, member: int) -> str:
    return f"{root}/sessions/{member}"


def token_of(data: bytes | None) -> str | None:
    """Whose lease a session node stands for."""
    return None if data is None else str(json.loads(data)["token"])


class Lease:
    """A live lease, until `lost`."""

    def __init__(self, ensemble: Ensemble, root: str, session: Session, clock: Clock) -> None:
        self.ensemble = ensemble
        self.session = session
        self.sure_until = 0.0
        """Monotonic time before which nobody else can see the lease as ended."""
        self._path = session_path(root, session.member)
        self._clock = clock
        self._alive = threading.Event()
        self._over = False

    @classmethod
    async def take(cls, ensemble: Ensemble, root: str, session: Session, clock: Clock) -> Self:
        """Begin a lease over a connection that is not yet open and will have no other use."""
        await ensemble.open()
        try:
            sent = clock.monotonic()
            await cls._create(ensemble, session_path(root, session.member), session)
        except BaseException:
            await ensemble.close()
            raise
        granted = Session(session.member, session.token, ensemble.timeout_ms)
        lease = cls(ensemble, root, granted, clock)
        lease._renewed(sent)
        threading.Thread(target=lease._watch, daemon=True, name="zookeeper-lease").start()
        return lease

    @staticmethod
    async def _create(ensemble: Ensemble, path: str, session: Session) -> None:
        by = ensemble.deadline()
        data = json.dumps({"token": session.token}).encode()
        while True:
            try:
                await ensemble.create(path, data, by, ephemeral=True)
                return
            except Unanswered:
                await ensemble.sync(path, by)
            except NodeExistsError:
                pass
            # An attempt that was not answered may have been ours.
            holder = token_of(await ensemble.maybe_get(path, by))
            if holder == session.token:
                return
            if holder is not None:
                raise MemberTaken(f"broker id {session.member} is in use by another live broker")

    async def heartbeat(self) -> None:
        self._alive.set()
        self.check()
        sent = self._clock.monotonic()
        # Soon enough for the next one to come in time for the watchdog.
        by = self.ensemble.deadline(self.session.timeout_ms / 3000)
        try:
            data = await self.ensemble.maybe_get(self._path, by)
        except SessionLost:
            raise self._lost() from None
        if token_of(data) != self.session.token:
            raise self._lost()
        self._renewed(sent)

    def check(self) -> None:
        """Raise `SessionLost` when the lease is known to have ended."""
        if self._over or self.ensemble.expired:
            raise self._lost()

    async def close(self) -> None:
        """End the lease now; if no server can be told, it ends by its timeout."""
        if not self._over:
            self._end()
            with contextlib.suppress(MetastoreError):
                await self._delete()
        await self.ensemble.close()

    async def _delete(self) -> None:
        # kazoo would close a connection that is broken at the moment without a word to the servers.
        by = self.ensemble.deadline(self.session.timeout_ms / 3000)
        while True:
            try:
                await self.ensemble.commit([Delete(self._path)], by)
                return
            except Unanswered:
                continue

    def _renewed(self, sent: float) -> None:
        self.sure_until = max(self.sure_until, sent + self.session.timeout_ms * _SURE / 1000)

    def _lost(self) -> SessionLost:
        self._end()
        return SessionLost(f"the session of broker {self.session.member} is over")

    def _end(self) -> None:
        self._over = True
        self._alive.set()

    def _watch(self) -> None:
        """The watchdog, in a thread."""
        while self._alive.wait(self.session.timeout_ms / 1000):
            if self._over:
                return
            self._alive.clear()
        self._over = True
        self.ensemble.abandon()
