"""The seam for whoever counts what a producer delivers; `tidelog.audit` is one that does.

An observer lives on the producer's loop and belongs to one producer.  Its calls, in their order:

    begin      the producer exists
    delivered  a batch was acknowledged
    committing everything of a transaction was acknowledged; what is sent now still belongs to it
    ended      the transaction has, with or without effect
    closing    everything was acknowledged; what is sent now is the last
"""

import importlib
from typing import TYPE_CHECKING, Protocol, cast

from tidelog.client.batch import Batch

if TYPE_CHECKING:
    from tidelog.client.producer import AsyncProducer


class Observer(Protocol):
    """What a producer tells."""

    stamp: tuple[tuple[str, bytes], ...]
    """Headers that every record gets."""

    def begin(self, producer: "AsyncProducer") -> None: ...

    def delivered(self, batch: Batch) -> None: ...

    async def committing(self) -> None: ...

    def ended(self, *, committed: bool) -> None: ...

    async def closing(self) -> None: ...


def standard_observer() -> Observer:
    """The observer that `audit=True` means.

    It is found by name: the audit stands above the clients, and a client without the switch must not need it.
    """
    return cast(Observer, importlib.import_module("tidelog.audit.producing").ProducerAudit())
