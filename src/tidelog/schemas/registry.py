"""One instance of the registry: reads from its own state, writes through the one writer.

A write is decided by the instance that was elected, appended, and answered when it has come back through the topic; any
other instance hands the request on and answers when its own state has it, too.  While there is no writer (a fail-over)
a write waits, up to `write_timeout_s`.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tidelog.client.cluster import Cluster
from tidelog.client.settings import ClientSettings, load
from tidelog.dataclass import dataclass
from tidelog.errors import KafkaError
from tidelog.schemas import errors
from tidelog.schemas.decisions import Decision
from tidelog.schemas.election import Election, Leader
from tidelog.schemas.forwarding import Answer, Forwarded, NobodyThere, send
from tidelog.schemas.state import State
from tidelog.schemas.topic import SchemasTopic
from tidelog.schemas.writer import NotTheWriter, TooLarge, Writer

_log = logging.getLogger(__name__)

_PAUSE_S = 0.1
Decide = Callable[[State], Decision]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryOptions:
    """How an instance runs; the defaults are Confluent's names."""

    topic: str = "_schemas"
    group: str = "schema-registry"
    session_timeout_ms: int = 10_000
    """A writer that was killed is replaced after this long."""
    write_timeout_s: float = 30.0
    scheme: str = "http"
    """How the other instances reach this one."""
    tls: ssl.SSLContext | None = None
    """What their certificates are checked with; the system's roots without."""


class Registry:
    """Made, started and closed on one loop."""

    def __init__(
        self, config: Mapping[str, Any], options: RegistryOptions, host: str, port: int
    ) -> None:
        self.options = options
        self.state = State()
        settings = load(ClientSettings, config, {})
        self._cluster = Cluster(settings)
        # Joins and heartbeats may wait at the broker, and so have a client of their own.
        self._group_cluster = Cluster(settings)
        self._topic = SchemasTopic(
            config,
            self._cluster,
            options.topic,
            replay=lambda entry: self.state.replay(entry),
            restart=self._forget,
        )
        self._writer = Writer(
            self._cluster,
            options.topic,
            f"tidelog-registry-{options.topic}",
            options.write_timeout_s,
        )
        self._election = Election(
            self._group_cluster,
            options.group,
            host,
            port,
            scheme=options.scheme,
            session_timeout_ms=options.session_timeout_ms,
            changed=self._leader_changed,
        )
        self._writing = asyncio.Lock()
        self._written = -1
        """The offset of the last record that this instance wrote.  Invariant: read back before anything is decided."""
        self._changed = asyncio.Event()

    @property
    def leader(self) -> Leader | None:
        return self._election.leader

    async def start(self) -> None:
        """Read all that there is; then `state` may be asked."""
        await self._topic.start()

    def stand_for_election(self) -> None:
        """Take part; to be called when requests can be received."""
        self._election.start()

    async def close(self) -> None:
        await self._election.close()
        await self._topic.close()
        await self._cluster.close()
        await self._group_cluster.close()

    async def write(self, decide: Decide, request: Forwarded) -> Any | Answer:
        """The decision's answer once it is written, or what the writer's instance answered."""
        try:
            async with asyncio.timeout(self.options.write_timeout_s):
                return await self._write(decide, request)
        except TimeoutError:
            if self.leader is None:
                raise errors.unknown_leader() from None
            raise errors.timed_out("the write was not done in time; it may still be") from None
        except TooLarge:
            raise errors.schema_too_large() from None
        except KafkaError as error:
            raise errors.store_failed(
                f"{self.options.topic} could not be written: {error}"
            ) from error

    async def _write(self, decide: Decide, request: Forwarded) -> Any | Answer:
        while True:
            self._changed.clear()
            leader = self.leader
            if leader is not None and leader.is_me:
                with suppress(NotTheWriter):
                    async with self._writing:
                        return await self._write_here(decide)
                _log.warning("this instance may not write at the moment; looking who may")
            elif request.is_forwarded:
                raise errors.unknown_leader()  # who sent it here will look again
            elif leader is not None:
                answer = await self._hand_on(leader.url, request)
                if answer is not None:
                    await self._topic.reached(await self._topic.end() - 1)
                    return answer
            await self._look_again()

    async def _write_here(self, decide: Decide) -> Any:
        if self._writer.stale:
            if not await self._election.confirm():
                raise NotTheWriter
            self._written = await self._known(await self._writer.take_over(self.state.max_id))
            await self._topic.reached(self._written)
            self._writer.ready = True
            _log.info("this instance writes %s now", self.options.topic)
        # A write may have been given up while it was read back: what it wrote counts all the same.
        await self._topic.reached(self._written)
        decision = decide(self.state)
        if decision.entries:
            offset = await self._writer.append(decision.entries)
            # Sent twice, it is there at an offset that we were not told; until we know, we may not decide.
            self._writer.ready = offset >= 0
            self._written = await self._known(offset)
            await self._topic.reached(self._written)
        return decision.answer

    async def _known(self, offset: int) -> int:
        """The offset, or the last one there is if it was not told."""
        return offset if offset >= 0 else await self._topic.end() - 1

    async def _hand_on(self, url: str, request: Forwarded) -> Answer | None:
        """What the writer answered; None if it did not, and somebody should be asked again."""
        if not url.startswith(f"{self.options.scheme}://"):
            # Users' passwords go with it: not in plain text because somebody in the group says so.
            raise errors.forwarding_failed(
                f"the writer at {url} does not speak {self.options.scheme}"
            )
        sending = asyncio.ensure_future(
            send(url, request, self.options.write_timeout_s, self.options.tls)
        )
        try:
            if request.repeatable:
                await self._done_or_deposed(sending, url)
                if not sending.done():
                    _log.debug("the writer is not %s any more; looking who is", url)
                    return None
            answer = await sending
        except NobodyThere as error:
            if error.may_have_arrived and not request.repeatable:
                raise errors.forwarding_failed(
                    f"the writer at {url} did not answer; look whether it is done"
                ) from error
            _log.debug("the writer at %s does not answer: %s", url, error)
            return None
        finally:
            sending.cancel()
        return None if answer.error_code == errors.unknown_leader().code else answer

    async def _done_or_deposed(self, sending: "asyncio.Future[Answer]", url: str) -> None:
        """Wait for the answer of the writer at `url`, unless another is elected: one that hangs answers nobody."""
        while not sending.done() and self.leader is not None and self.leader.url == url:
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait((sending, changed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()

    async def _look_again(self) -> None:
        """Until there is another leader, or a moment has passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PAUSE_S):
                await self._changed.wait()

    def _leader_changed(self, leader: Leader | None) -> None:
        if leader is None or not leader.is_me:
            self._writer.ready = False
        _log.info(
            "the registry's writer is %s",
            "not elected" if leader is None else "this instance" if leader.is_me else leader.url,
        )
        self._changed.set()

    def _forget(self) -> None:
        """The topic is read anew; ids that were given stay given."""
        highest = self.state.max_id
        self.state = State()
        self.state.max_id = highest
