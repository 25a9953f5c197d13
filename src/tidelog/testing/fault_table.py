"""Faults inside a broker: what is armed, and how often it has struck.

A `FaultTable` stands between the network and the dispatcher (`Broker(intercept=table.stand_before)`).  While nothing is armed
it passes everything on.  While something is, `fault_striking.py` looks at the requests of that API, and small produces
are no longer served in runs, so that each meets its fault.

The fixture's own clients are never struck, nor are the brokers among themselves.  Everything runs on the broker's loop.
"""

import asyncio
from dataclasses import field
from struct import Struct as Packer
from typing import TYPE_CHECKING

from tidelog.broker.context import Services
from tidelog.broker.dispatch import Serving
from tidelog.dataclass import dataclass
from tidelog.network.answer import Answer, Deferred
from tidelog.network.peer import Peer
from tidelog.testing.faults import Spec

if TYPE_CHECKING:
    from tidelog.testing.fault_striking import Striker

_API_KEY = Packer(">h")
_PRODUCE_KEY = 0


@dataclass(slots=True, eq=False)
class Armed:
    """A fault and how often it has struck."""

    spec: Spec
    struck: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Lets go of the requests that are held."""

    @property
    def spent(self) -> bool:
        return self.spec.times is not None and self.struck >= self.spec.times


class FaultTable:
    """All faults of one broker."""

    def __init__(self) -> None:
        self._faults: dict[int, Armed] = {}
        self._by_key: dict[int, list[Armed]] = {}
        self._numbers = 0
        self._inner: Serving | None = None
        self._services: Services | None = None
        self._striker: Striker | None = None
        """Made when a fault is first armed."""

    def stand_before(self, inner: Serving, services: Services) -> Serving:
        """Take the place of the dispatcher; a broker that is started again calls it again."""
        self._inner, self._services, self._striker = inner, services, None
        return self

    # ------------------------------------------------------------------ arming

    def arm(self, spec: Spec) -> int:
        """Begin; returns the number of the fault."""
        self._numbers += 1
        self._faults[self._numbers] = Armed(spec)
        self._index()
        return self._numbers

    def disarm(self, number: int) -> None:
        """End a fault and let go of what it holds; it keeps its count."""
        if (armed := self._faults.get(number)) is not None:
            armed.released.set()
            self._index()

    def clear(self) -> None:
        """End all faults and forget them."""
        for armed in self._faults.values():
            armed.released.set()
        self._faults.clear()
        self._index()

    def struck(self, number: int) -> int:
        """How many requests it has met."""
        if number not in self._faults:
            raise LookupError("the fault has ended: its broker was killed, or its test is over")
        return self._faults[number].struck

    def _index(self) -> None:
        self._by_key = {}
        for armed in self._faults.values():
            if not armed.spent and not armed.released.is_set():
                for key in armed.spec.api_keys:
                    self._by_key.setdefault(key, []).append(armed)

    # ------------------------------------------------------------------ serving

    def serve(self, peer: Peer, frame: memoryview) -> Answer:
        assert self._inner is not None
        if self._by_key and len(frame) >= _API_KEY.size:
            armed = self._by_key.get(_API_KEY.unpack_from(frame)[0])
            if armed:
                return self._striking().serve(armed, peer, frame)
        return self._inner.serve(peer, frame)

    def serve_run(
        self, peer: Peer, buffer: memoryview, pos: int, end: int
    ) -> tuple[int, bytes | Deferred | None]:
        assert self._inner is not None
        if _PRODUCE_KEY in self._by_key:
            return pos, None  # one by one, so that each can meet its fault
        return self._inner.serve_run(peer, buffer, pos, end)

    def _striking(self) -> "Striker":
        if self._striker is None:
            from tidelog.testing.fault_striking import Striker

            assert self._inner is not None
            assert self._services is not None
            self._striker = Striker(self._inner, self._services, self._note)
        return self._striker

    def _note(self, armed: Armed) -> None:
        armed.struck += 1
        if armed.spent:
            self._index()
