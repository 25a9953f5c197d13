"""Logins from an address where many have failed wait for their turn, so that guessing gets slower the longer it goes on.

    wait_s = slow.wait_s(host, base_s, user)    # before a login is looked at; SaslAuthenticationFailed if it is too long
    slow.failed(host, user)                     # after it has failed
    slow.succeeded(host, user)

The first failures are free; each further one doubles the pause between two logins of the address.  They are forgotten one after
another.  What is waited for is the look at a login, not its answer: else guesses in parallel would be as fast as ever.  A
success forgets nothing, because whoever guesses may have a login of his own.  But a user who has logged in from an address
before is at home there, and waits for failures in his own name alone: else whoever fails on purpose would lock out all others behind
the same address, of a proxy, a registry, a console.  Addresses and users are bounded, and of IPv6 the network counts.
"""

from collections.abc import Callable
from dataclasses import field
from ipaddress import IPv6Address, ip_address

from tidelog.dataclass import dataclass
from tidelog.errors import SaslAuthenticationFailed

FREE = 10
FORGET_S = 5.0
"""One failure is forgotten after so long."""
LONGEST_PAUSE_S = 5.0
PATIENCE_S = 30.0
"""Whoever would have to wait longer is refused at once."""
_MOST_ADDRESSES = 10_000
_MOST_AT_HOME = 10_000
_MOST_FAILURES = 60.0

_Key = tuple[str, str]
"""A network, and a user who is at home there; "" for all others."""


@dataclass(slots=True)
class _Address:
    failures: float = 0.0
    as_of: float = 0.0
    next_at: float = field(default=0.0)
    """When the next login of this address is looked at, at the earliest."""


class SlowLogins:
    """See the module's docstring."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._addresses: dict[_Key, _Address] = {}
        self._at_home: dict[_Key, None] = {}
        """The one that logged in last is the last."""

    def wait_s(self, host: str, base_s: float, user: str = "") -> float:
        """How long a login from here as `user` has to wait; `base_s` is the first pause, 0 switches it off."""
        found = self._addresses.get(self._key(host, user))
        if found is None:
            return 0.0
        now = self._monotonic()
        over = self._failures(found, now) - FREE
        if over <= 0:
            return 0.0
        turn = max(now, found.next_at)
        if turn - now > PATIENCE_S:
            raise SaslAuthenticationFailed(
                "too many logins from this address have failed; wait before the next"
            )
        found.next_at = turn + min(base_s * 2.0 ** min(over, 16.0), LONGEST_PAUSE_S)
        return turn - now

    def failed(self, host: str, user: str = "") -> None:
        key, now = self._key(host, user), self._monotonic()
        # The one that failed last is the last to be forgotten.
        found = self._addresses.pop(key, None) or _Address()
        found.failures = min(self._failures(found, now) + 1, _MOST_FAILURES)
        found.as_of = now
        self._addresses[key] = found
        while len(self._addresses) > _MOST_ADDRESSES:
            del self._addresses[next(iter(self._addresses))]

    def succeeded(self, host: str, user: str) -> None:
        key = _network(host), user
        self._at_home.pop(key, None)
        self._at_home[key] = None
        while len(self._at_home) > _MOST_AT_HOME:
            del self._at_home[next(iter(self._at_home))]

    def _key(self, host: str, user: str) -> _Key:
        key = _network(host), user
        return key if key in self._at_home else (key[0], "")

    def _failures(self, found: _Address, now: float) -> float:
        return max(0.0, found.failures - (now - found.as_of) / FORGET_S)


def _network(host: str) -> str:
    """Whoever has one address of IPv6 has all of its network."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return address.exploded[:19]
    return host
