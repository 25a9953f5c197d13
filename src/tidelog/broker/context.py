"""What a handler is given: the broker's services, and who asks.

`Services` is filled once by `broker/broker.py`, the only wiring; a handler reaches everything through
`ctx.broker`.  A `Context` lives as long as one request.
"""

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, cast

from tidelog.broker.authorizer import OPEN, Authorizer, Refused, refusal
from tidelog.broker.late import Late
from tidelog.broker.refusals import Refusals
from tidelog.broker.request_times import Requests
from tidelog.clock import Clock
from tidelog.cluster.partitions import Partitions
from tidelog.dataclass import dataclass
from tidelog.network.peer import Peer, Principal
from tidelog.network.watchdog import Watchdog
from tidelog.quotas.quotas import Mutations, Quotas
from tidelog.security.acls import Operation, Resource

if TYPE_CHECKING:  # types alone: a broker imports what it needs when it needs it
    from tidelog.broker.audit_trail import AuditTrail
    from tidelog.broker.dispatch import Handlers
    from tidelog.broker.fetch_sessions import FetchSessions
    from tidelog.broker.metering import Metering
    from tidelog.broker.producer_ids import ProducerIds
    from tidelog.broker.settings import BrokerSettings
    from tidelog.broker.telemetry import Telemetry
    from tidelog.cluster.control import Control
    from tidelog.cluster.image import Image
    from tidelog.cluster.lease import Lease
    from tidelog.cluster.throttle import Throttle
    from tidelog.cluster.waiting import Waiting
    from tidelog.coordination.groups.coordinator import GroupCoordinator
    from tidelog.coordination.transactions.coordinator import TransactionCoordinator
    from tidelog.storage.manager import LogManager


@dataclass(slots=True, kw_only=True)
class Services:
    """Everything that handlers may use."""

    broker_id: int
    cluster_id: str
    settings: "BrokerSettings"
    clock: Clock
    image: "Callable[[], Image]"
    """The picture of the cluster as this broker knows it now."""
    partitions: Partitions
    logs: "LogManager"
    controller: "Control"
    groups: "GroupCoordinator"
    transactions: "TransactionCoordinator"
    producer_ids: "ProducerIds"
    waiting: "Waiting"
    """Fetches that wait for data."""
    fetch_sessions: "FetchSessions"
    leader_throttle: "Throttle"
    """Of what followers that catch up may have."""
    lease: "Lease"
    """Whether this broker may answer as a leader."""
    telemetry: "Telemetry" = field(default_factory=lambda: cast("Telemetry", Late(_no_telemetry)))
    """What clients tell of themselves."""
    refusals: Refusals = field(default_factory=Refusals)
    """Batches that may be tried again, and until then hold up those behind them."""
    requests: Requests = field(default_factory=Requests)
    """How many there were, and how long they took."""
    watchdog: Watchdog = field(default_factory=lambda: Watchdog(lambda: 0.0))
    """Measures who holds the loop."""
    authorizer: Authorizer = OPEN
    """Who may do what."""
    trail: "AuditTrail | None" = None
    """Who has changed what; None where nobody wants to know."""
    quotas: Quotas = field(default_factory=Quotas)
    """How much who may use."""
    meter: "Metering | None" = None
    """Counts what clients use; None while nobody is limited."""
    handlers: "Handlers" = field(default_factory=lambda: _handlers())
    """The APIs that this broker answers."""


class Context:
    """One request: who asks, in which version, and what the broker has to serve it with."""

    __slots__ = ("_refused", "api_version", "broker", "client_id", "correlation_id", "peer")

    def __init__(
        self,
        broker: Services,
        peer: Peer,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.broker = broker
        self.peer = peer
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self._refused: Refused | None = None

    @property
    def principal(self) -> Principal:
        """As whom the peer is known."""
        return self.peer.principal

    def may(self, operation: Operation, resource: Resource, *, quietly: bool = False) -> bool:
        """Whether the peer may do this; `quietly` for who only leaves out what is not for its eyes."""
        allowed = self.broker.authorizer.may(self.peer, operation, resource, quietly=True)
        if not allowed and not quietly:
            if self._refused is None:
                self._refused = Refused(self.peer)
            self._refused.add(operation, resource)
        return allowed

    def check(self, operation: Operation, resource: Resource) -> None:
        """Raise the authorisation error of the resource for who may not do this."""
        if not self.may(operation, resource):
            raise refusal(resource)

    def tell_refused(self) -> None:
        """The request is answered: what it was refused goes to the log."""
        if self._refused is not None:
            self._refused.tell()

    def mutations(self, *, strict: bool) -> Mutations:
        """What the peer may change in the cluster's metadata by this request."""
        now, user = self.broker.clock.monotonic(), self.principal.name
        return self.broker.quotas.mutations(user, self.client_id or "", strict=strict, now=now)


def _no_telemetry() -> "Telemetry":
    raise AssertionError("this broker was put together without telemetry")


def _handlers() -> "Handlers":
    from tidelog.broker.dispatch import Handlers  # which imports this module

    return Handlers()
