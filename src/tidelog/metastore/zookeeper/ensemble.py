"""A connection to a ZooKeeper ensemble: kazoo's threads on one side, awaitable requests on the other.

    ensemble = Ensemble(["a:2181", "b:2181"], timeout_ms=9_000, on_change=bell.ring)
    await ensemble.open()
    data, stat = await ensemble.get("/path", by=ensemble.deadline())

kazoo reads and writes its socket in a thread of its own and calls back in two others.  Nothing of ours runs there
but `call_soon_threadsafe`, so everything else belongs to the event loop.

A request ends in one of three ways: an answer, `Unanswered`, or `MetastoreError` when ZooKeeper refuses or the
deadline passes.  `Unanswered` means that the connection broke after the request was made: it may have been carried
out.  `get`, `children` and `sync` change nothing and are therefore repeated by themselves; whoever calls `create`
or `commit` has to find out.  What he then reads after a `sync` is final: ZooKeeper carries out nothing that came over
an older connection of a session once the session has moved to another.
"""

import asyncio
import contextlib
import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
    WriterNotClosedException,
)
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from tidelog.metastore.access import NOBODY, ZooKeeperAccess
from tidelog.metastore.contract import MetastoreError, SessionLost

T = TypeVar("T")

log = logging.getLogger(__name__)

# kazoo has a line for every attempt to connect; we say once that the ensemble is away and once that it is back.
_kazoo_log = logging.getLogger("tidelog.metastore.zookeeper.kazoo")
_kazoo_log.setLevel(logging.CRITICAL)

_BROKEN = (ConnectionLoss, OperationTimeoutError, SessionExpiredError, SessionMovedError)
_RETRY_SECONDS = 0.02


class Unanswered(Exception):
    """The connection broke before the answer came: the request may or may not have been carried out."""


class Create(NamedTuple):
    path: str
    data: bytes


class Write(NamedTuple):
    path: str
    data: bytes
    version: int = -1
    """The version that the node must still have; -1 for any."""


class Delete(NamedTuple):
    path: str


class Check(NamedTuple):
    path: str
    version: int = -1
    """The version that the node must still have; -1 for any, but it must be there."""


Step = Create | Write | Delete | Check


class Refused(NamedTuple):
    """Why a transaction was not carried out."""

    step: int
    """Index of the step that could not be done."""
    reason: KazooException


class Ensemble:
    """One kazoo client.  Unless `one_session`, it begins a new ZooKeeper session when the old one has expired."""

    def __init__(
        self,
        servers: Sequence[str],
        timeout_ms: int,
        on_change: Callable[[], None],
        *,
        patience: float = 10.0,
        one_session: bool = False,
        access: ZooKeeperAccess = NOBODY,
    ) -> None:
        self.servers = ",".join(servers)
        self.timeout_ms = timeout_ms
        """What the servers granted, once connected; they have a smallest and a largest session timeout."""
        self.sessions = 0
        """How many ZooKeeper sessions there have been: what was read in an earlier one may be newer."""
        self.expired = False
        """Invariant: with `one_session`, never becomes False again."""
        self._patience = patience
        self._one_session = one_session
        self._on_change = on_change
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connected = asyncio.Event()
        """Set also when there is nothing left to wait for."""
        self._new_session = True
        self._closed = False
        self._stopped = False
        self._stopping = threading.Lock()
        self._client = KazooClient(
            hosts=self.servers,
            timeout=timeout_ms / 1000,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=0.5),
            logger=_kazoo_log,
            **_options(access),
        )
        self._learn_granted_timeout()

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._client.add_listener(self._changed)
        try:
            await _in_thread(self._client.start_async)
            async with asyncio.timeout(self._patience):
                await self._connected.wait()
        except TimeoutError:
            await self.close()
            raise self._away() from None
        except asyncio.CancelledError:
            self.abandon()
            raise

    async def close(self) -> None:
        """End the ZooKeeper session, and with it whatever is ephemeral; if no server answers, it ends by itself later."""
        if not self._closed:
            self._closed = True
            self._connected.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await _in_thread(self._stop)

    def abandon(self) -> None:
        """End the session from whichever thread, without waiting."""
        threading.Thread(target=self._stop, daemon=True, name="zookeeper-stop").start()

    def deadline(self, patience: float = math.inf) -> float:
        """Until when a request that begins now may take, in the loop's time."""
        return asyncio.get_running_loop().time() + min(patience, self._patience)

    # Requests

    async def get(
        self, path: str, by: float, watch: Callable[[object], None] | None = None
    ) -> tuple[bytes, int]:
        """The data and version of a node that has to be there."""
        try:
            data, stat = await self._repeat(lambda kazoo: kazoo.get_async(path, watch=watch), by)
        except NoNodeError:
            raise self._missing(path) from None
        return data, stat.version

    async def maybe_get(self, path: str, by: float) -> bytes | None:
        try:
            data, _ = await self._repeat(lambda kazoo: kazoo.get_async(path), by)
        except NoNodeError:
            return None
        return bytes(data)

    async def children(
        self, path: str, by: float, watch: Callable[[object], None] | None = None
    ) -> list[str]:
        """The names below a node that has to be there."""
        try:
            names = await self._repeat(
                lambda kazoo: kazoo.get_children_async(path, watch=watch), by
            )
        except NoNodeError:
            raise self._missing(path) from None
        return list(names)

    async def sync(self, path: str, by: float) -> None:
        """Make the server that we are connected to catch up with the ensemble."""
        await self._repeat(lambda kazoo: kazoo.sync_async(path), by)

    async def create(self, path: str, data: bytes, by: float, *, ephemeral: bool = False) -> None:
        """One attempt: may raise `Unanswered`, and `NodeExistsError`."""
        try:
            await self._once(lambda kazoo: kazoo.create_async(path, data, ephemeral=ephemeral), by)
        except NoNodeError:
            raise self._missing(path.rpartition("/")[0] or "/") from None

    async def commit(self, steps: Sequence[Step], by: float) -> list[Any] | Refused:
        """Carry out all of the steps or none.  One attempt: may raise `Unanswered`."""
        results = await self._once(lambda kazoo: _transaction(kazoo, steps).commit_async(), by)
        for index, result in enumerate(results):
            # The steps before the one at fault are "rolled back", those behind it "inconsistent".
            if isinstance(result, KazooException) and not isinstance(
                result, RolledBackError | RuntimeInconsistency
            ):
                return Refused(index, result)
        return list(results)

    async def _repeat(self, request: Callable[[KazooClient], Any], by: float) -> Any:
        while True:
            try:
                return await self._once(request, by)
            except Unanswered:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _once(self, request: Callable[[KazooClient], Any], by: float) -> Any:
        try:
            async with asyncio.timeout_at(by):
                await self._connected.wait()
                self._check_usable()
                return await self._answer(request(self._client))
        except TimeoutError:
            raise self._away() from None
        except (AuthFailedError, NoAuthError):
            raise MetastoreError(
                f"ZooKeeper at {self.servers} does not accept our credentials"
            ) from None
        except _BROKEN:
            self._check_usable()
            raise Unanswered from None
        except (NoNodeError, NodeExistsError):
            raise
        except KazooException as error:
            raise MetastoreError(
                f"ZooKeeper at {self.servers} refuses: {type(error).__name__}"
            ) from error

    def _check_usable(self) -> None:
        if self.expired:
            raise SessionLost("the session with ZooKeeper has expired")
        if self._closed:
            raise MetastoreError("the metastore is closed")

    def _missing(self, path: str) -> MetastoreError:
        return MetastoreError(f"ZooKeeper at {self.servers} has no {path}; has it been removed?")

    def _away(self) -> MetastoreError:
        return MetastoreError(f"ZooKeeper at {self.servers} does not answer")

    def _answer(self, result: Any) -> asyncio.Future[Any]:
        """What kazoo will answer in its thread, as a future of the loop."""
        assert self._loop is not None
        future: asyncio.Future[Any] = self._loop.create_future()

        def settle() -> None:
            if future.done():
                return
            if result.exception is None:
                future.set_result(result.value)
            else:
                future.set_exception(result.exception)

        result.rawlink(lambda _: self.on_loop(settle))
        return future

    # What kazoo's threads call

    def on_loop(self, callback: Callable[[], None]) -> None:
        """Call back on the event loop; for kazoo's threads."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            log.debug("the event loop ended before the connection to ZooKeeper")

    def _changed(self, state: str) -> None:
        self.on_loop(lambda: self._follow(state))

    def _follow(self, state: str) -> None:
        if self._closed or self.expired:
            return
        if state == KazooState.CONNECTED:
            if self.sessions:
                self._tell("ZooKeeper at %s is back")
            self.sessions += self._new_session
            self._new_session = False
            self._connected.set()
        elif state == KazooState.LOST and self._one_session:
            self.expired = True
            self._connected.set()
            self.abandon()
        else:
            if self._connected.is_set():
                self._tell("the connection to ZooKeeper at %s is broken; trying again")
            self._connected.clear()
            self._new_session = self._new_session or state == KazooState.LOST
        self._on_change()

    def _tell(self, what: str) -> None:
        # A lease's connection breaks with the others, and one line is enough.
        if not self._one_session:
            log.warning(what, self.servers)

    def _stop(self) -> None:
        # kazoo minds being stopped by two threads, and a lease may end for two reasons at once.
        with self._stopping:
            if not self._stopped:
                self._stopped = True
                self._stop_once()

    def _stop_once(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except (WriterNotClosedException, ConnectionClosedError, OSError) as error:
            log.debug("closing the connection to ZooKeeper: %s", error)

    def _learn_granted_timeout(self) -> None:
        # kazoo keeps the granted timeout to itself: two thirds of it, the time it waits for a sign of life, are what
        # its `_connect` returns.
        connection = self._client._connection
        connect = connection._connect

        def connect_and_learn(host: str, address: str, port: int) -> tuple[float, float]:
            read_timeout, connect_timeout = connect(host, address, port)
            self.timeout_ms = round(read_timeout * 3 / 2)
            return read_timeout, connect_timeout

        connection._connect = connect_and_learn


def _options(access: ZooKeeperAccess) -> dict[str, Any]:
    """What kazoo is told about logins and TLS."""
    options: dict[str, Any] = {}
    if access.user:
        options["auth_data"] = [("digest", f"{access.user}:{access.password}")]
        options["default_acl"] = [make_digest_acl(access.user, access.password, all=True)]
    if access.tls:
        options |= {
            "use_ssl": True,
            "check_hostname": True,
            "ca": access.roots or None,
            "certfile": access.certificate or None,
            "keyfile": access.certificate or None,
            "keyfile_password": access.key_password or None,
        }
    return options


def _transaction(kazoo: KazooClient, steps: Sequence[Step]) -> Any:
    transaction = kazoo.transaction()
    for step in steps:
        match step:
            case Create(path, data):
                transaction.create(path, data)
            case Write(path, data, version):
                transaction.set_data(path, data, version)
            case Delete(path):
                transaction.delete(path)
            case Check(path, version):
                transaction.check(path, version)
    return transaction


async def _in_thread(work: Callable[[], T]) -> T:
    """Like `asyncio.to_thread`, in a thread that the end of the process does not wait for."""
    done: Future[T] = Future()
    # From now on whoever waits may leave, but the work goes on.
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            done.set_exception(error)

    threading.Thread(target=run, daemon=True, name="zookeeper-work").start()
    return await asyncio.wrap_future(done)
