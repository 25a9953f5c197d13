"""The clients of one identity: of everybody where the broker asks for no login, else of one session.

They are made when first used and kept, because a login costs; what blocks (the registry, the audit) runs in a thread.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TypeVar
from urllib.parse import urlsplit

from tidelog.audit.ledger import Ledger
from tidelog.audit.reading import AuditReader
from tidelog.client.admin import AsyncAdmin
from tidelog.client.consumer import AsyncConsumer
from tidelog.client.producer import AsyncProducer
from tidelog.client.simple import AsyncSimpleConsumer
from tidelog.console.errors import ConsoleError
from tidelog.console.payloads import Payloads
from tidelog.console.sampler import Sampler
from tidelog.errors import TidelogError
from tidelog.schemas.client import RegistryClient

_log = logging.getLogger(__name__)

T = TypeVar("T")

_HASTE = {
    "client.id": "tidelog-console",
    "request.timeout.ms": "10000",
    "default.api.timeout.ms": "15000",
}
"""A person waits for the answer."""
_PRODUCER = {"linger.ms": "0", "max.request.size": str(16 << 20), "delivery.timeout.ms": "15000"}
_CONSUMER = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "none",
    "max.partition.fetch.bytes": str(512 << 10),
    "fetch.max.bytes": str(4 << 20),
    "prefetch.max.bytes": str(8 << 20),
    "fetch.max.wait.ms": "250",
}
_REGISTRY_TIMEOUT_S = 10.0
_AUDIT_WAIT_S = 10.0


class Clients:
    """See the module's docstring.  Lives on one loop."""

    def __init__(self, config: Mapping[str, str], registry_url: str | None) -> None:
        self._config = {**_HASTE, **config}
        self.admin = AsyncAdmin(self._config)
        self.simple = AsyncSimpleConsumer({**self._config, "fetch.max.wait.ms": "250"})
        self.registry = (
            None
            if registry_url is None
            else RegistryClient(
                registry_url, timeout_s=_REGISTRY_TIMEOUT_S, auth=_login_at(registry_url, config)
            )
        )
        self.payloads = Payloads(self.registry)
        self.sampler = Sampler(self.admin)
        self._closing: set[asyncio.Task[None]] = set()
        """Consumers that are no longer needed."""
        self._producer: AsyncProducer | None = None
        self._audit: AuditReader | None = None
        self._auditing: asyncio.Task[Ledger] | None = None

    def start(self) -> None:
        """Begin to sample."""
        self.sampler.start()

    @property
    def producer(self) -> AsyncProducer:
        if self._producer is None:
            self._producer = AsyncProducer({**self._config, **_PRODUCER})
        return self._producer

    @contextlib.asynccontextmanager
    async def consumer(self, *, committed: bool) -> AsyncIterator[AsyncConsumer]:
        """A consumer of its own for one request."""
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = AsyncConsumer({**self._config, **_CONSUMER, "isolation.level": isolation})
        try:
            yield consumer
        finally:
            # Not awaited here: who went away in the middle of a tail has cancelled whatever would be.
            task = asyncio.ensure_future(consumer.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def with_registry(self, ask: Callable[[RegistryClient], T]) -> T:
        """What the registry says, asked in a thread."""
        registry = self.registry
        if registry is None:
            raise ConsoleError(
                409,
                "no_registry",
                "this console knows no schema registry; start it with --registry http://127.0.0.1:8081",
            )
        return await asyncio.to_thread(ask, registry)

    async def ledger(self) -> tuple[Ledger, bool]:
        """What the audit has counted, and whether all of it has been read; the rest goes on in the background."""
        if self._auditing is None or self._auditing.done():
            self._auditing = asyncio.ensure_future(asyncio.to_thread(self._catch_up))
        done, _ = await asyncio.wait([self._auditing], timeout=_AUDIT_WAIT_S)
        if done:
            return self._auditing.result(), True
        if self._audit is None:
            raise ConsoleError(503, "audit_not_read", "the audit topic is being read; try again")
        return self._audit.ledger, False

    def _catch_up(self) -> Ledger:
        if self._audit is None:
            self._audit = AuditReader(self._config, Ledger())
        self._audit.catch_up()
        return self._audit.ledger

    async def close(self) -> None:
        """Let go of everything; what fails now is of no use to anybody."""
        await self.sampler.stop()
        await asyncio.gather(*self._closing, return_exceptions=True)
        if self._auditing is not None:
            with contextlib.suppress(asyncio.CancelledError, TidelogError):
                await self._auditing
        if self._audit is not None:
            await asyncio.to_thread(self._audit.close)
        if self.registry is not None:
            self.registry.close()
        for client in (self._producer, self.simple, self.admin):
            if client is not None:
                try:
                    await client.close()
                except TidelogError as error:
                    _log.debug("closing: %s", error)


def _login_at(registry_url: str, config: Mapping[str, str]) -> tuple[str, str] | None:
    """The user's own login, which a registry may ask for; never in plain text over a network."""
    user, password = config.get("sasl.username", ""), config.get("sasl.password", "")
    parts = urlsplit(registry_url)
    private = parts.scheme == "https" or parts.hostname in ("localhost", "127.0.0.1", "::1")
    return (user, password) if user and password and private and not parts.username else None
