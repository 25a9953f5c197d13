"""How many requests of each API there were, and how long some of them took, phase by phase.

Counting is one addition for a request.  Time is measured for some of them only, as many as are needed to know how it is
spread: then a `Probe` goes along with the request.

    queue       since the loop saw that something had come, until it is this request's turn
    local       decoding, the handler, encoding
    remote      waiting: for other replicas, for a flush, for data, for a group, for the controller
    throttle    how long the client is held back by its quota
    response queue    until the other requests that came together are served
    response send     until the system has taken the last byte

A request that needs a task of its own is measured as remote from the moment the task is made.
"""

from collections.abc import Awaitable, Callable, Iterator

from tidelog.errors import KafkaError
from tidelog.measures import Durations
from tidelog.network.answer import Answer, Deferred, Ready
from tidelog.network.peer import Peer

PHASES = ("queue", "local", "remote", "throttle", "response_queue", "response_send", "total")

_NEVER = 1 << 62
_SAMPLES_A_SECOND = 50
"""Of each API.  With what `Durations` keeps, quantiles are those of the last twenty seconds of a busy API."""


class ApiTimes:
    """One API."""

    __slots__ = ("_counted", "_every", "_sampled", "count", "name", "phases", "sample_at")

    def __init__(self, name: str, *, sampled: bool) -> None:
        self.name = name
        self.count = 0
        """Requests that were served."""
        self.sample_at = 1 if sampled else _NEVER
        """The next request to measure, by its number."""
        self.phases = {each: Durations() for each in PHASES}
        self._every = 1
        self._sampled = 0
        """Number of the request that was measured last."""
        self._counted = 0

    def next_sample(self) -> int:
        """The request that is being served is measured: for how many it stands."""
        weight = self.count - self._sampled
        self._sampled = self.count
        self.sample_at = self.count + self._every
        return weight

    def adapt(self, seconds: float) -> None:
        """So much time has passed since the last call: measure more of them, or fewer."""
        rate = (self.count - self._counted) / seconds
        self._counted = self.count
        self._every = max(1, int(rate / _SAMPLES_A_SECOND))
        self.sample_at = min(self.sample_at, self.count + self._every)


class Requests:
    """Of one broker."""

    def __init__(self) -> None:
        self._by_name: dict[str, ApiTimes] = {}
        self._measuring = False
        self.fetch_follower = self.of("FetchFollower")
        """Fetches of followers; those of consumers are the other fetches."""
        self.produce = self.of("Produce")
        self.fetch_consumer = self.of("FetchConsumer")
        """For its times alone."""
        self.errors: dict[tuple[str, str], int] = {}
        """By API and error: requests that were refused, and partitions of Produce and Fetch that were."""
        self.throttled: dict[str, int] = {}
        """By API: answers that told a client to wait."""

    def of(self, name: str) -> ApiTimes:
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = ApiTimes(name, sampled=self._measuring)
        return found

    def __iter__(self) -> Iterator[ApiTimes]:
        return iter(list(self._by_name.values()))

    def measure(self) -> None:
        """From now on look at the time too; `adapt` has to be called every second or so."""
        self._measuring = True
        for each in self._by_name.values():
            each.sample_at = each.count + 1

    def adapt(self, seconds: float) -> None:
        for each in self._by_name.values():
            each.adapt(seconds)

    def failed(self, name: str, error: KafkaError) -> None:
        """A request, or a part of it, was refused."""
        key = name, type(error).__name__
        self.errors[key] = self.errors.get(key, 0) + 1

    def throttle(self, name: str, seconds: float) -> None:
        """The client of a request is held back for so long: its quota is used up."""
        self.throttled[name] = self.throttled.get(name, 0) + 1
        self.of(name).phases["throttle"].add(seconds)


class Probe:
    """Goes along with a request that is measured."""

    __slots__ = ("_arrived", "_begun", "_done", "_now", "_ready", "_sending", "_times", "_weight")

    def __init__(
        self,
        times: ApiTimes,
        weight: int,
        now: Callable[[], float],
        arrived: float,
        begun: float = 0.0,
    ) -> None:
        """What began in the past says when it did."""
        self._times = times
        self._weight = weight
        self._now = now
        self._begun = self._done = self._ready = self._sending = begun or now()
        self._arrived = arrived or self._begun

    def served(self, answer: Answer, peer: Peer, times: ApiTimes) -> Answer:
        """The handler has returned; the answer to send in its place, for which the probe waits if need be."""
        self._times = times
        self._done = self._ready = self._now()
        if answer is None:
            return None  # nothing is sent
        if isinstance(answer, Deferred):
            return self._after(answer, peer)
        if isinstance(answer, bytes | bytearray | list | tuple):
            peer.watch(self)
            return answer
        return self._awaited(answer, peer)

    def _after(self, answer: Deferred, peer: Peer) -> Deferred:
        later = Deferred(pipelined=answer.pipelined)

        def resolved(ready: Ready | Exception) -> None:
            self._is_ready(peer)
            later.resolve(ready)

        answer.then(resolved)
        return later

    async def _awaited(self, answer: Awaitable[Ready], peer: Peer) -> Ready:
        ready = await answer
        self._is_ready(peer)
        return ready

    def _is_ready(self, peer: Peer) -> None:
        self._ready = self._now()
        peer.watch(self)

    # What the connection tells.

    def sending(self) -> None:
        self._sending = self._now()

    def sent(self) -> None:
        """All is with the system: take the times down."""
        now, phases, weight = self._now(), self._times.phases, self._weight
        phases["queue"].add(max(self._begun - self._arrived, 0.0), weight)
        phases["local"].add(self._done - self._begun, weight)
        phases["remote"].add(self._ready - self._done, weight)
        phases["response_queue"].add(self._sending - self._ready, weight)
        phases["response_send"].add(now - self._sending, weight)
        phases["total"].add(now - min(self._arrived, self._begun), weight)
