"""Requests are counted, and some of them measured: what each phase is, and for how many a measurement stands."""

import pytest

from tidelog.broker.request_times import PHASES, ApiTimes, Probe, Requests
from tidelog.errors import NotLeaderOrFollower
from tidelog.network.answer import Deferred
from tidelog.network.peer import Address, Peer


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A connection that remembers its probe."""

    arrived_at = 99.0

    def __init__(self) -> None:
        self.probe = None

    def watch(self, probe) -> None:
        self.probe = probe


@pytest.fixture
def peer():
    found = Peer(Address("127.0.0.1", 5), Address("127.0.0.1", 9092), "PLAINTEXT")
    found.connection = Watched()
    return found


def totals(times: ApiTimes) -> dict[str, float]:
    return {each: round(times.phases[each].total_s, 6) for each in PHASES}


def test_every_request_is_measured_while_there_are_few():
    requests = Requests()
    requests.measure()
    times = requests.of("Produce")
    weights = []
    for _ in range(5):
        times.count += 1
        if times.count >= times.sample_at:
            weights.append(times.next_sample())
    assert weights == [1, 1, 1, 1, 1]


def test_of_many_requests_some_stand_for_the_others():
    requests = Requests()
    requests.measure()
    times = requests.of("Produce")
    times.count = 10_000
    times.next_sample()
    requests.adapt(1.0)  # ten thousand a second
    weights = []
    for _ in range(10_000):
        times.count += 1
        if times.count >= times.sample_at:
            weights.append(times.next_sample())
    assert len(weights) in (50, 51)
    assert 10_000 - 200 < sum(weights) <= 10_000, "the rest is in the next measurement"


def test_without_metrics_nothing_is_measured():
    times = Requests().of("Produce")
    times.count += 1_000_000
    assert times.count < times.sample_at


def test_the_phases_of_an_answer_that_is_there_at_once(peer):
    clock, times = Clock(), ApiTimes("Produce", sampled=True)
    probe = Probe(times, 1, clock, peer.arrived_at)
    clock.now += 2
    assert probe.served(b"answer", peer, times) == b"answer"
    clock.now += 3
    peer.connection.probe.sending()
    clock.now += 4
    peer.connection.probe.sent()
    assert totals(times) == {
        "queue": 1.0, "local": 2.0, "remote": 0.0, "throttle": 0.0,
        "response_queue": 3.0, "response_send": 4.0, "total": 10.0,
    }  # fmt: skip


def test_the_phases_of_an_answer_that_waits(peer):
    clock, times = Clock(), ApiTimes("Fetch", sampled=True)
    probe = Probe(times, 10, clock, peer.arrived_at)
    clock.now += 2
    deferred = Deferred(pipelined=True)
    answer = probe.served(deferred, peer, times)
    assert isinstance(answer, Deferred)
    assert answer.pipelined
    got: list[object] = []
    answer.then(got.append)
    clock.now += 5
    deferred.resolve(b"later")
    assert got == [b"later"]
    peer.connection.probe.sending()
    peer.connection.probe.sent()
    assert times.phases["remote"].total_s == 50.0
    assert times.phases["remote"].count == 10
    assert times.phases["total"].total_s == 80.0


async def test_a_coroutine_is_awaited_with_the_probe(peer):
    clock, times = Clock(), ApiTimes("JoinGroup", sampled=True)
    probe = Probe(times, 1, clock, 0.0)

    async def work() -> bytes:
        clock.now += 7
        return b"done"

    assert await probe.served(work(), peer, times) == b"done"
    peer.connection.probe.sending()
    peer.connection.probe.sent()
    assert times.phases["remote"].total_s == 7.0
    assert times.phases["queue"].total_s == 0.0, "nobody knows when it arrived"


def test_a_request_without_an_answer_is_not_followed(peer):
    times = ApiTimes("Produce", sampled=True)
    assert Probe(times, 1, Clock(), 0.0).served(None, peer, times) is None
    assert peer.connection.probe is None


def test_errors_and_throttles_are_counted():
    requests = Requests()
    requests.failed("Fetch", NotLeaderOrFollower())
    requests.failed("Fetch", NotLeaderOrFollower())
    requests.throttle("Produce", 0.25)
    assert requests.errors == {("Fetch", "NotLeaderOrFollower"): 2}
    assert requests.throttled == {"Produce": 1}
    assert requests.of("Produce").phases["throttle"].total_s == 0.25
