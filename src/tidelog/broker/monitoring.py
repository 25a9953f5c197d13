"""What a broker tells whoever looks after it, put together: its pages, and what watches the loop for them.

    monitoring = Monitoring(clock, background)
    await monitoring.open(sock)              # /healthz is there, /readyz says what the broker is doing
    monitoring.doing = "checking the logs"
    monitoring.started(parts)                # /metrics is there

A broker without it counts all the same, because a count costs nothing; it only measures no time.
"""

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.broker.background import Background
from tidelog.broker.context import Services
from tidelog.broker.coordinators import Coordinators
from tidelog.broker.member import Member
from tidelog.broker.replication import Replication
from tidelog.clock import Clock
from tidelog.dataclass import dataclass
from tidelog.network.hub import Hub
from tidelog.network.peer import Address
from tidelog.storage.flusher import Flusher
from tidelog.storage.manager import LogManager

if TYPE_CHECKING:  # imported when somebody looks: a start must be quick
    from tidelog.broker.gate import LoginCounts
    from tidelog.broker.metrics.loop_watch import LoopWatch
    from tidelog.broker.metrics.pages import Pages
    from tidelog.broker.metrics.sight import Sight
    from tidelog.storage.cleaner import Cleaner


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What of a broker can be looked at once it has started."""

    services: Services
    hub: Hub
    flusher: Flusher
    member: Member
    replication: Replication
    coordinators: Coordinators
    cleaner: "Callable[[], Cleaner | None]"
    logins: "LoginCounts | None"


class Monitoring:
    """See the module's docstring."""

    def __init__(
        self, clock: Clock, thread_time: Callable[[], float], background: Background
    ) -> None:
        """`thread_time` is the processor time of the calling thread, in seconds."""
        self._clock = clock
        self._thread_time = thread_time
        self._background = background
        self._pages: Pages | None = None
        self._watch: LoopWatch | None = None
        self._parts: Parts | None = None
        self._sight: Sight | None = None
        self.doing: str | None = "starting"
        """What keeps the broker from serving, in a word; None while it serves."""
        self.address: Address | None = None
        """Where the pages are; None for nowhere."""

    async def open(self, sock: socket.socket) -> None:
        """Serve the pages on a bound socket; raises OSError."""
        from tidelog.broker.metrics.pages import Pages

        self._pages = Pages(self.why_not_ready, self._make_sight)
        name = sock.getsockname()
        await self._pages.start(sock)
        self.address = Address(name[0], name[1])

    def started(self, parts: Parts) -> None:
        """The broker serves: there is something to tell."""
        self._parts = parts
        self.doing = None
        if self._pages is None:
            return
        from tidelog.broker.metrics.loop_watch import LoopWatch

        requests = parts.services.requests
        requests.measure()
        self._watch = LoopWatch(self._clock.monotonic, self._thread_time, requests.adapt)
        self._background.run("watch over the loop", self._watch.run())

    async def close(self) -> None:
        if self._pages is not None:
            await self._pages.stop()

    def why_not_ready(self) -> list[str]:
        """What keeps the broker from serving all that it should, one reason a line; nothing if it is ready."""
        parts = self._parts
        if self.doing is not None or parts is None:
            return [f"the broker is {self.doing}"]
        found = []
        if not parts.member.is_settled:
            found.append("the broker is not registered with the controller, or fenced by it")
        tail = parts.member.tail
        if tail.is_away:
            found.append("the metastore cannot be reached")
        if tail.image.number < tail.log_end:
            behind = tail.log_end - tail.image.number
            found.append(f"the metadata is {behind} entries behind the log")
        found += _offline(parts.services.logs)
        return found

    def _make_sight(self) -> "Sight | None":
        """What a scrape looks at; made for the first one."""
        parts = self._parts
        if self._sight is None and parts is not None and self._watch is not None:
            from tidelog.broker.metrics.group_lag import GroupLags
            from tidelog.broker.metrics.sight import Sight

            services, coordinators = parts.services, parts.coordinators

            def committed() -> "list[tuple[str, tuple[str, int], int]]":
                groups = coordinators.made_groups
                return [] if groups is None else list(groups.committed())

            self._sight = Sight(
                services=services,
                hub=parts.hub,
                flusher=parts.flusher,
                member=parts.member,
                replication=parts.replication,
                coordinators=coordinators,
                cleaner=parts.cleaner,
                logins=parts.logins,
                loop=self._watch,
                lags=GroupLags(
                    committed,
                    services.partitions,
                    services.image,
                    parts.member.peers,
                    services.clock,
                    lambda topic: services.settings.log.over(services.image().topic_config(topic)),
                ),
            )
        return self._sight


def _offline(logs: LogManager) -> list[str]:
    return [str(each.failure) for each in logs.directories if each.failure is not None]
