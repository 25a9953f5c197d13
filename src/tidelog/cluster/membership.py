"""This broker among the others: its session with the metastore, and who the controller is.

    members = Membership(metastore, broker_id, timeout_ms=9000, elected=make_controller, clock=clock)
    await members.join()                     # a session, and a controller: this broker or another
    run(members.watch()); every(2000, members.heartbeat)
    members.controller                       # who it is, None while nobody is
    members.active                           # the controller, if it is this broker

Every broker stands for election whenever there is no live controller.  A session that is lost is opened again, and this
broker goes on: whatever it did in the name of the old session is refused by the metastore or by the controller.
While the metastore cannot be reached nothing is decided, and brokers serve what they lead.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from tidelog.clock import Clock
from tidelog.cluster.controller import Controller
from tidelog.cluster.registration import incarnation_of
from tidelog.errors import KafkaError, RequestTimedOut
from tidelog.metastore.contract import Controller as Elected
from tidelog.metastore.contract import Metastore, MetastoreError, Session, SessionLost, Tick

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5


class Membership:
    """See the module's docstring."""

    def __init__(
        self,
        metastore: Metastore,
        member: int,
        *,
        timeout_ms: int,
        elected: Callable[[int], Controller],
        clock: Clock,
    ) -> None:
        """`elected` makes the controller for an epoch that this broker has won."""
        self._metastore = metastore
        self._timeout_ms = timeout_ms
        self._elected = elected
        self._clock = clock
        self._session: Session | None = None
        self._told_of_silence = False
        self._opening = asyncio.Lock()
        self._changed = asyncio.Event()
        self._level = logging.DEBUG
        """At which it is told who leads."""
        self._listeners: list[Callable[[], None]] = []
        self.member = member
        self.controller: Elected | None = None
        self.active: Controller | None = None

    @property
    def incarnation(self) -> str:
        """Tells this session from all others."""
        assert self._session is not None
        return str(incarnation_of(self.member, self._session.token))

    @property
    def deadline(self) -> float:
        """Monotonic time until which the others surely take this broker for alive."""
        assert self._session is not None
        return self._metastore.session_deadline(self._session)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the session or the controller is another one."""
        self._listeners.append(listener)

    async def join(self) -> None:
        """Open the session and find out who leads; `MetastoreError` (MemberTaken …) if that cannot be."""
        self._session = await self._metastore.open_session(self.member, self._timeout_ms)
        self._note_others(await self._metastore.tick())
        await self._look()

    async def heartbeat(self) -> None:
        """Renew the session, or open another when it was lost."""
        session = self._session
        assert session is not None
        try:
            await self._metastore.heartbeat(session)
            self._told_of_silence = False
        except SessionLost:
            await self._try_to_reopen(session)
        except MetastoreError as error:  # whoever follows the metadata log tells of it
            log.debug("no sign of life could be given: %s", error)
            over = self._clock.monotonic() >= self._metastore.session_deadline(session)
            if over and not self._told_of_silence:
                self._told_of_silence = True
                log.warning(
                    "the metastore has had no sign of life from this broker for %g s: to the others it may be gone",
                    session.timeout_ms / 1000,
                )

    async def watch(self) -> None:
        """Stand for election, and as the controller watch over the brokers, until cancelled."""
        seen: Tick | None = None
        told = False
        while True:
            try:
                now = await self._metastore.tick()
                if seen is not None and now == seen:
                    now = await self._metastore.wait(seen)
                self._note_others(now)
                await self._look()
                await self._watch_over(now)
                seen, told = now, False
            except SessionLost:
                assert self._session is not None
                if not await self._try_to_reopen(self._session):
                    await asyncio.sleep(_RETRY_SECONDS)
            except (MetastoreError, KafkaError) as error:
                news = isinstance(error, RequestTimedOut) and not told
                log.log(logging.WARNING if news else logging.DEBUG, "%s", error)
                told = told or news
                await asyncio.sleep(_RETRY_SECONDS)

    async def another(self, than: Elected | None, timeout_s: float) -> None:
        """Wait until the controller is not `than`, for so long at most."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while self.controller == than:
                    await self._changed.wait()

    async def leave(self) -> None:
        """Decide nothing any more, and end the session.  What watches and renews it must have stopped."""
        self._become(None)
        if self._session is not None:
            with contextlib.suppress(MetastoreError):
                await self._metastore.close_session(self._session)

    # ------------------------------------------------------------------ below

    async def _look(self) -> None:
        """Find out who the controller is; be it, when nobody is."""
        assert self._session is not None
        session = self._session
        found = await self._metastore.controller()
        if found is None:
            epoch = await self._metastore.lead(session)
            if epoch is not None:
                found = Elected(self.member, epoch)
            else:
                found = await self._metastore.controller()
        elif found.member == self.member and not self._is_active(found.epoch):
            # Ours, unless it is of a session that we have lost.
            epoch = await self._metastore.lead(session)
            found = None if epoch is None else Elected(self.member, epoch)
        self._become(found)

    def _is_active(self, epoch: int) -> bool:
        active = self.active
        return active is not None and active.epoch == epoch and not active.resigned

    def _become(self, found: Elected | None) -> None:
        mine = found.epoch if found is not None and found.member == self.member else None
        active = self.active
        if active is not None and (active.resigned or active.epoch != mine):
            active.resign()
            log.log(self._level, "this broker is no longer the controller (epoch %d)", active.epoch)
            self.active = None
        if mine is not None and self.active is None:
            log.log(self._level, "this broker is the controller (epoch %d)", mine)
            self.active = self._elected(mine)
        if found != self.controller:
            self.controller = found
            self._tell()

    def _note_others(self, tick: Tick) -> None:
        # A broker that is alone has no news for anybody when it is its own controller.
        self._level = logging.INFO if len(tick.sessions) > 1 else logging.DEBUG

    async def _watch_over(self, tick: Tick) -> None:
        active = self.active
        if active is not None and active.sessions_seen != tick.sessions:
            await active.reconcile()

    async def _try_to_reopen(self, lost: Session) -> bool:
        try:
            await self._reopen(lost)
        except MetastoreError as error:
            log.debug("the session cannot be opened yet: %s", error)
            return False
        return True

    async def _reopen(self, lost: Session) -> None:
        async with self._opening:
            if self._session != lost:
                return  # done already
            self._become(None)
            log.warning("the session with the metastore was lost; a new one is opened")
            self._session = await self._metastore.open_session(self.member, self._timeout_ms)
            self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for listener in self._listeners:
            listener()
