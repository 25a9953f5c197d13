"""A metastore in memory, for tests and the simulation: several handles share one `MemoryStore`."""

import itertools
from dataclasses import field

from tidelog.clock import Clock
from tidelog.dataclass import dataclass
from tidelog.metastore.contract import (
    Compacted,
    Controller,
    Entry,
    Fenced,
    MemberTaken,
    Metastore,
    Session,
    SessionLost,
    Snapshot,
    Tick,
    Wakeups,
)


@dataclass(slots=True)
class MemoryStore:
    """What outlives a handle: the shared state."""

    cluster_id: str = ""
    log: list[Entry] = field(default_factory=list)
    log_end: int = 0
    snapshot: Snapshot | None = None
    epoch: int = 0
    leader: Session | None = None
    leases: dict[int, tuple[Session, float]] = field(default_factory=dict)
    """By member: its newest session and when that was last renewed."""
    wakeups: Wakeups = field(default_factory=Wakeups)
    tokens: "itertools.count[int]" = field(default_factory=itertools.count)


class MemoryMetastore(Metastore):
    """A handle; expiry follows the clock that is passed in."""

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._sessions: list[Session] = []

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        for session in list(self._sessions):
            await self.close_session(session)

    async def cluster_id(self, proposal: str) -> str:
        self._store.cluster_id = self._store.cluster_id or proposal
        return self._store.cluster_id

    async def open_session(self, member: int, timeout_ms: int) -> Session:
        held = self._store.leases.get(member)
        if held is not None and self._is_live(held[0]):
            raise MemberTaken(f"broker id {member} is in use by another live broker")
        session = Session(member, str(next(self._store.tokens)), timeout_ms)
        self._renew(session)
        self._sessions.append(session)
        self._store.wakeups.ring()
        return session

    async def heartbeat(self, session: Session) -> None:
        if not self._is_live(session):
            self._forget_deadline(session)
            raise SessionLost(f"the session of broker {session.member} is over")
        self._renew(session)

    async def close_session(self, session: Session) -> None:
        self._forget_deadline(session)
        if session in self._sessions:
            self._sessions.remove(session)
        held = self._store.leases.get(session.member)
        if held is not None and held[0] == session:
            del self._store.leases[session.member]
            self._store.wakeups.ring()

    async def lead(self, session: Session) -> int | None:
        if not self._is_live(session):
            raise SessionLost(f"the session of broker {session.member} is over")
        leader = self._store.leader
        if leader == session:
            return self._store.epoch
        if leader is not None and self._is_live(leader):
            return None
        self._store.epoch += 1
        self._store.leader = session
        self._store.wakeups.ring()
        return self._store.epoch

    async def controller(self) -> Controller | None:
        leader = self._store.leader
        if leader is None or not self._is_live(leader):
            return None
        return Controller(leader.member, self._store.epoch)

    async def append(self, epoch: int, data: bytes) -> int:
        self._fence(epoch)
        self._store.log_end += 1
        self._store.log.append(Entry(self._store.log_end, data))
        self._store.wakeups.ring()
        return self._store.log_end

    async def read(self, after: int, limit: int = 1000) -> list[Entry]:
        first = self._store.log_end - len(self._store.log) + 1
        if after + 1 < first:
            raise Compacted(f"the log begins at {first}")
        return self._store.log[after + 1 - first :][:limit]

    async def snapshot(self) -> Snapshot | None:
        return self._store.snapshot

    async def save_snapshot(self, epoch: int, snapshot: Snapshot) -> None:
        self._fence(epoch)
        self._store.snapshot = snapshot
        self._store.log = [each for each in self._store.log if each.number > snapshot.number]

    async def tick(self) -> Tick:
        live = (held for held, _ in self._store.leases.values() if self._is_live(held))
        return Tick(
            self._store.log_end,
            self._store.epoch,
            frozenset((each.member, each.token) for each in live),
        )

    def wakeups(self) -> Wakeups:
        return self._store.wakeups

    def _renew(self, session: Session) -> None:
        now = self._clock.monotonic()
        self._store.leases[session.member] = (session, now)
        self._set_deadline(session, now + session.timeout_ms / 1000)

    def _fence(self, epoch: int) -> None:
        if epoch != self._store.epoch:
            raise Fenced(
                f"controller epoch {epoch} is over; the present one is {self._store.epoch}"
            )

    def _is_live(self, session: Session) -> bool:
        held = self._store.leases.get(session.member)
        if held is None or held[0] != session:
            return False
        return (self._clock.monotonic() - held[1]) * 1000 <= session.timeout_ms
