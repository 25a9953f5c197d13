"""Stands before the dispatcher while anybody is limited by a quota: counts what clients use, and holds who uses too much.

A request is served whatever its client has used already.  If that is too much, its answer says at once for how long the
client will be held (`throttle_time_ms`), and its connection is not read until then: a client that takes no notice is
held too (KIP-219).  What a fetch would send is known before it is sent, so that is decided by `fetch_reading.py`.

Counted are the bytes of Produce requests, the bytes of records in fetches, and the time of the loop that is spent on a client:
receiving, serving, and sending.  Brokers are not limited, nor are logins.

While nobody is limited, `serve` is the dispatcher's own: it costs nothing.
"""

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from struct import Struct as Packer
from types import coroutine
from typing import Any, NamedTuple, TypeVar

from tidelog.broker.dispatch import Handler, Handlers, Serving
from tidelog.broker.permissions import CLUSTER_ACTION, cluster
from tidelog.broker.throttle_times import tell, tell_last, throttle_time
from tidelog.clock import Clock
from tidelog.network.answer import Answer, Deferred, Ready
from tidelog.network.peer import Peer, Principal
from tidelog.quotas.account import Account
from tidelog.quotas.limits import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Limit,
)
from tidelog.quotas.quotas import Accounts, Quotas

T = TypeVar("T")

_HEADER = Packer(">hhih")  # api key, version, correlation id, length of the client id
_LENGTH_BYTES = 4
_PRODUCE = 0
_MUTATING = frozenset({19, 20, 37})  # CreateTopics, DeleteTopics, CreatePartitions
_WRITE_TXN_MARKERS = (
    27  # of coordinators; others may send it too, so its handler asks for either of two rights
)


class Share(NamedTuple):
    """What a peer was found to be limited in when it last asked for something."""

    generation: int
    principal: Principal
    client_id: bytes
    accounts: Accounts | None


class _Held(NamedTuple):
    """Why a peer is held back, and until when."""

    key: str
    limit: Limit | None
    user: str
    client_id: str
    until: float


Delay = tuple[float, str]
"""Seconds, and the quota that asks for them."""

_NO_DELAY: Delay = (0.0, "")


class Metering:
    """See the module's docstring; implements `dispatch.Serving`."""

    def __init__(
        self,
        serving: Serving,
        quotas: Quotas,
        handlers: Handlers,
        clock: Clock,
        count: Callable[[str, float], None] = lambda *_: None,
    ) -> None:
        """`count` is told of every answer that says to wait: the API, and for how many seconds."""
        self._serving = serving
        self._count = count
        self._quotas = quotas
        self._handlers = handlers
        self._now = clock.monotonic
        self._held: dict[Peer, _Held] = {}
        self.serve: Callable[[Peer, memoryview], Answer]
        self.serve_run: Callable[[Peer, memoryview, int, int], tuple[int, bytes | Deferred | None]]
        self.limits_changed()

    @property
    def is_on(self) -> bool:
        return self._quotas.limits_clients or self._quotas.limits_mutations

    @property
    def watch(self) -> "Callable[..., Any] | None":
        """`timed`, where anybody is limited in time."""
        return self.timed if self._quotas.limits_time else None

    def limits_changed(self) -> None:
        """Obey the quotas as they are now; who is held by one that was changed may go on at once."""
        if self.is_on:
            self.serve, self.serve_run = self._serve, self._serve_run
        else:
            self.serve, self.serve_run = self._serving.serve, self._serving.serve_run
        now = self._now()
        held, self._held = self._held, {}
        for peer, why in held.items():
            if self._quotas.limit(why.key, why.user, why.client_id) != why.limit:
                peer.hold(0)
            elif why.until > now:
                self._held[peer] = why

    def fetch_account(self, peer: Peer) -> Account | None:
        """What the peer is limited in when it fetches, by the client id of its last request."""
        share = peer.share
        if not isinstance(share, Share):
            return None
        accounts = self._accounts(peer, share.client_id)
        return None if accounts is None else accounts.fetch

    def _accounts(self, peer: Peer, raw: bytes) -> Accounts | None:
        """What a client is limited in; None for nothing."""
        share = peer.share
        if (
            type(share) is not Share
            or share.client_id != raw
            or share.generation != self._quotas.generation
            or share.principal is not peer.principal
        ):
            found = self._quotas.of(peer.principal.name, raw.decode(errors="replace"))
            share = Share(self._quotas.generation, peer.principal, raw, found)
            peer.share = share
        return None if peer.is_broker else share.accounts

    def timed(self, peer: Peer, work: Callable[..., T], *arguments: Any) -> T:
        """Do `work` for `peer`, and count the time."""
        began = self._now()
        try:
            return work(*arguments)
        finally:
            share = peer.share
            if isinstance(share, Share) and share.accounts is not None and not peer.is_broker:
                self._spent(share.accounts, self._now() - began)

    def granted(self, peer: Peer, size_bytes: int) -> tuple[bool, int]:
        """Whether a fetch may be answered with so many bytes of records, and for how many milliseconds it is held."""
        account = self.fetch_account(peer)
        if account is None:  # not any more
            return True, 0
        granted, delay = account.ask(size_bytes, self._now())
        told_ms = self._hold(peer, (delay, CONSUMER_BYTE_RATE))
        if told_ms:
            self._count("FetchConsumer", delay)
        return granted, told_ms

    # ------------------------------------------------------------------ requests

    def _serve(self, peer: Peer, frame: memoryview) -> Answer:
        if len(frame) < _HEADER.size:
            return self._serving.serve(peer, frame)
        api_key, version, _, length = _HEADER.unpack_from(frame)
        accounts = self._accounts(peer, _client_id(frame, length))
        mutates = api_key in _MUTATING and self._quotas.limits_mutations
        if accounts is None and not mutates:
            return self._serving.serve(peer, frame)
        began = self._now()
        answer = self._serving.serve(peer, frame)
        handler = self._handlers.get(api_key)
        assert handler is not None, "else it could not have been served"
        delay = _NO_DELAY
        if accounts is not None and api_key == _PRODUCE:
            delay = self._produced(accounts, len(frame) + _LENGTH_BYTES, began)
        is_timed = (
            accounts is not None and accounts.request is not None and not _is_exempt(handler, peer)
        )
        if not isinstance(answer, bytes) and isinstance(answer, Coroutine):
            if not is_timed and not mutates:
                return answer
            return self._finish(peer, accounts if is_timed else None, handler, version, answer)
        if accounts is not None and is_timed:
            delay = max(delay, self._spent(accounts, self._now() - began))
        return self._told(peer, handler, version, answer, delay)

    async def _finish(
        self,
        peer: Peer,
        accounts: Accounts | None,
        handler: Handler,
        version: int,
        answer: Coroutine[Any, Any, Ready],
    ) -> Ready:
        """An answer that takes several steps, the time of which is `accounts`', if it is anybody's."""
        spent = [0.0]
        ready = await _stepped(answer, self._now, spent)
        delay = _NO_DELAY
        if accounts is not None:
            delay = self._spent(accounts, spent[0])
        if handler.api_key in _MUTATING and self._quotas.limits_mutations:
            # By the controller, which is here or on another broker: there the client has no connection to be held.
            told_s = throttle_time(handler, version, ready) / 1000
            delay = max(delay, (told_s, CONTROLLER_MUTATION_RATE))
        told = self._told(peer, handler, version, ready, delay)
        assert told is None or isinstance(told, bytes | bytearray | list | tuple)
        return told

    def _serve_run(
        self, peer: Peer, buffer: memoryview, pos: int, end: int
    ) -> tuple[int, bytes | Deferred | None]:
        frame = buffer[pos + _LENGTH_BYTES : end]
        if len(frame) < _HEADER.size:
            return pos, None
        accounts = self._accounts(peer, _client_id(frame, _HEADER.unpack_from(frame)[3]))
        began = self._now()
        stop, answers = self._serving.serve_run(peer, buffer, pos, end)
        if accounts is None or stop == pos:
            return stop, answers
        delay = self._produced(accounts, stop - pos, began)
        delay = max(delay, self._spent(accounts, self._now() - began))
        if not delay[0]:
            return stop, answers
        _, version, _, _ = _HEADER.unpack_from(buffer, pos + _LENGTH_BYTES)
        handler = self._handlers.get(_PRODUCE)
        assert handler is not None
        self._hold(peer, delay)
        self._count(handler.name, delay[0])
        if answers is None:
            return stop, None  # they want no answers
        left_ms = partial(self._left_ms, self._now() + delay[0])
        if isinstance(answers, bytes):
            return stop, tell_last(handler, version, answers, left_ms())
        later = Deferred(pipelined=answers.pipelined)

        def resolve(ready: Ready | Exception) -> None:
            if isinstance(ready, bytes):
                ready = tell_last(handler, version, ready, left_ms())
            later.resolve(ready)

        answers.then(resolve)
        return stop, later

    # ------------------------------------------------------------------ counting and holding

    def _produced(self, accounts: Accounts, size_bytes: int, now: float) -> Delay:
        if accounts.produce is None:
            return _NO_DELAY
        return accounts.produce.use(size_bytes, now), PRODUCER_BYTE_RATE

    def _spent(self, accounts: Accounts, seconds: float) -> Delay:
        if accounts.request is None:
            return _NO_DELAY
        return accounts.request.use(seconds * 100, self._now()), REQUEST_PERCENTAGE

    def _told(
        self, peer: Peer, handler: Handler, version: int, answer: Answer, delay: Delay
    ) -> Answer:
        """Hold the peer, if it is to be held, and have the answer say so."""
        if not self._hold(peer, delay):
            return answer
        self._count(handler.name, delay[0])
        return tell(handler, version, answer, partial(self._left_ms, self._now() + delay[0]))

    def _hold(self, peer: Peer, delay: Delay) -> int:
        """Hold a peer back; the milliseconds that it is told."""
        seconds, key = delay
        share = peer.share
        if not seconds or not isinstance(share, Share):
            return 0
        now = self._now()
        before = self._held.get(peer)
        if before is None or before.until < now + seconds:
            peer.hold(seconds)
            user, client_id = share.principal.name, share.client_id.decode(errors="replace")
            limit = self._quotas.limit(key, user, client_id)
            self._held[peer] = _Held(key, limit, user, client_id, now + seconds)
        return _ms(seconds)

    def sweep(self) -> None:
        """To be called now and then: forget whose time is over."""
        now = self._now()
        self._held = {peer: each for peer, each in self._held.items() if each.until > now}

    def _left_ms(self, until: float) -> int:
        return _ms(until - self._now())


def _client_id(frame: memoryview, length: int) -> bytes:
    return bytes(frame[_HEADER.size : _HEADER.size + length]) if length > 0 else b""


def _ms(seconds: float) -> int:
    """Rounded up: a client that comes too early would wait for its answer."""
    return -int(-seconds * 1000 // 1)


def _is_exempt(handler: Handler, peer: Peer) -> bool:
    """Whether the time for a request is nobody's: brokers among themselves, and logins."""
    return (
        peer.is_broker
        or handler.before_login
        or handler.allow is cluster(CLUSTER_ACTION)
        or handler.api_key == _WRITE_TXN_MARKERS
    )


@coroutine
def _stepped(
    work: Coroutine[Any, Any, T], now: Callable[[], float], spent: list[float]
) -> Generator[Any, Any, T]:
    """Await `work`, and add to `spent` the seconds in which it did something, and did not wait."""
    value: Any = None
    error: BaseException | None = None
    while True:
        began = now()
        try:
            waits_for = work.send(value) if error is None else work.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            spent[0] += now() - began
        value = error = None
        try:
            value = yield waits_for
        except BaseException as raised:  # noqa: BLE001  (it is work's: a cancellation, or the end of the loop)
            error = raised
