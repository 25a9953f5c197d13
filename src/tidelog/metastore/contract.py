"""What a store of cluster metadata must offer: sessions, an election, one fenced log, snapshots, waiting.

A `Metastore` is one member's handle on a store that several members may share.  The contract with the caller:

1. `open` first, `close` last.  `cluster_id` is the same for everybody, for ever.
2. `open_session` gives a lease.  Whoever holds it calls `heartbeat` well within the session timeout; a lease that
   was not renewed in time, or whose process is gone, is lost and `heartbeat` raises `SessionLost`.
3. `lead` makes the caller controller when nobody live is.  Every win raises the controller epoch.
4. `append` adds one entry to the metadata log.  The epoch is checked in the same atomic step, so a deposed
   controller's late append raises `Fenced` and leaves no trace.  Entries are numbered 1, 2, 3 … without a gap.
   An append that raises another `MetastoreError` may have happened: the next `read` that answers tells, for good.
5. `read` gives the entries after an index, in order.  Entries below the newest snapshot may have been cut;
   then it raises `Compacted` and the caller starts again from `snapshot`.
6. `wait` returns when the store no longer is at the `Tick` that the caller has seen.  A caller that takes the tick
   first and reads afterwards misses nothing and sees nothing twice.

Time.  The store counts the session timeout from the last heartbeat that reached it.  The holder counts from before
it sent that heartbeat, so that its own `session_deadline` is never later than what the others see: until then nobody
has taken the lease for ended, and from then on somebody may have.  What the holder does then is its own affair: the log is fenced by
epochs, so that a store which is away need not stop those who lead.  Heartbeat about every third of the timeout: one may be lost, and the deadline still lies ahead.  A
heartbeat that raises a `MetastoreError` other than `SessionLost` has decided nothing: the lease may live or not,
the deadline stays what it was, and a later heartbeat may succeed.  The clock is the one passed in; it must not stand
still while other machines go on, so a virtual machine that is suspended breaks the promise and only epochs protect.

The store keeps opaque bytes; what they mean is `cluster/metadata.py`'s business.
"""

import asyncio
import contextlib
import math
from abc import ABC, abstractmethod
from typing import NamedTuple, Self

from tidelog.dataclass import dataclass
from tidelog.errors import TidelogError

_SLOWER_ALONE = 10
"""How much longer a member that is alone waits before it looks for others."""


class MetastoreError(TidelogError):
    """The store cannot do what was asked at the moment."""


class MetastoreDamaged(MetastoreError):
    """The store is there, and cannot be read."""


class Fenced(MetastoreError):
    """Another member has become controller since; the append did not happen."""


class SessionLost(MetastoreError):
    """The lease ran out or was taken over; the member must open a new session."""


class MemberTaken(MetastoreError):
    """Another live session has this member id."""


class Compacted(MetastoreError):
    """The log was cut past the index asked for; the snapshot has what is missing."""


class Entry(NamedTuple):
    number: int
    """Position in the metadata log; the first entry ever has 1."""
    data: bytes


class Snapshot(NamedTuple):
    number: int
    """The last entry whose effect is in `data`."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Session:
    """A lease.  `token` tells it from an earlier or later session of the same member."""

    member: int
    token: str
    timeout_ms: int


class Tick(NamedTuple):
    """How far the store has come; two equal ticks mean that nothing happened in between."""

    log_end: int
    """Index of the newest entry, 0 for none."""
    controller_epoch: int
    sessions: frozenset[tuple[int, str]]
    """Member and token of every live session."""


class Controller(NamedTuple):
    member: int
    epoch: int
    """Invariant: grows with every election, never repeats."""


class Metastore(ABC):
    """One member's handle on the store; see the module's docstring for the contract."""

    ends_with_process: bool = False
    """Whether a session ends the moment its process dies, and not when its time has run out."""
    poll_seconds: float | None = None
    """How often `wait` looks for what other processes did; None when wake-ups come by themselves."""

    def __init__(self) -> None:
        self._deadlines: dict[str, float] = {}
        """By token: the monotonic time until which the lease surely lives."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None:
        """Give back sessions and files; the handle is dead afterwards."""

    @abstractmethod
    async def cluster_id(self, proposal: str) -> str:
        """The cluster's id; `proposal` becomes it when the store has none yet."""

    # Sessions

    @abstractmethod
    async def open_session(self, member: int, timeout_ms: int) -> Session:
        """A new lease for `member`; `MemberTaken` while another live session has that id."""

    @abstractmethod
    async def heartbeat(self, session: Session) -> None:
        """Renew the lease, or raise `SessionLost`."""

    def session_deadline(self, session: Session) -> float:
        """Monotonic time until which the lease surely lives; grows with each heartbeat that succeeds.

        Minus infinity for a session that is known to be over.
        """
        return self._deadlines.get(session.token, -math.inf)

    @abstractmethod
    async def close_session(self, session: Session) -> None:
        """End the lease now.  Its controllership, if any, is free from then on."""

    # Election

    @abstractmethod
    async def lead(self, session: Session) -> int | None:
        """Become controller and return the new epoch; None while another live member is.

        The present controller gets its present epoch again.
        """

    @abstractmethod
    async def controller(self) -> Controller | None:
        """Who leads, if its session is live."""

    # The log

    @abstractmethod
    async def append(self, epoch: int, data: bytes) -> int:
        """Add an entry as the controller of `epoch` and return its index, or raise `Fenced`."""

    @abstractmethod
    async def read(self, after: int, limit: int = 1000) -> list[Entry]:
        """Up to `limit` entries with an index above `after`, or raise `Compacted`."""

    @abstractmethod
    async def snapshot(self) -> Snapshot | None:
        """The newest snapshot."""

    @abstractmethod
    async def save_snapshot(self, epoch: int, snapshot: Snapshot) -> None:
        """Keep the state after `snapshot.number` and cut the log up to there; fenced like `append`."""

    # Waiting

    @abstractmethod
    async def tick(self) -> Tick: ...

    @abstractmethod
    def wakeups(self) -> "Wakeups":
        """What rings when this process changes the store."""

    async def wait(self, seen: Tick, timeout: float | None = None) -> Tick:
        """Return the present tick as soon as it differs from `seen`, or when the time is over."""
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        with self.wakeups().listen() as bell:
            while (now := await self.tick()) == seen:
                left = None if deadline is None else deadline - asyncio.get_running_loop().time()
                if left is not None and left <= 0:
                    break
                waits = [each for each in (left, self._poll_after(now)) if each is not None]
                with contextlib.suppress(TimeoutError):
                    # Not wait_for: in Python 3.11 it loses a cancellation that comes with the bell.
                    async with asyncio.timeout(min(waits, default=None)):
                        await bell.wait()
                bell.clear()
        return now

    def _set_deadline(self, session: Session, deadline: float) -> None:
        self._deadlines[session.token] = deadline

    def _forget_deadline(self, session: Session) -> None:
        self._deadlines.pop(session.token, None)

    def _poll_after(self, tick: Tick) -> float | None:
        if self.poll_seconds is None or len(tick.sessions) > 1:
            return self.poll_seconds
        # Nobody else is there, and whoever comes is noticed soon enough: an idle broker should rest.
        return self.poll_seconds * _SLOWER_ALONE


class Wakeups:
    """Rings every listener of one process; the bells belong to one event loop."""

    def __init__(self) -> None:
        self._bells: dict[_Bell, None] = {}

    def listen(self) -> "_Bell":
        return _Bell(self._bells)

    def ring(self) -> None:
        for bell in list(self._bells):
            bell.set()


class _Bell(asyncio.Event):
    def __init__(self, bells: "dict[_Bell, None]") -> None:
        super().__init__()
        self._bells = bells

    def __enter__(self) -> "_Bell":
        self._bells[self] = None
        return self

    def __exit__(self, *_: object) -> None:
        self._bells.pop(self, None)
