"""Chooses what goes wrong, by the seed: what, whom, when and for how long.

It is honest: it does nothing after which Kafka's own rules allow a loss.  While not every write is synced, power is cut
from one broker at a time, and from the next only when every partition has all its replicas in sync again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial

from .administrator import Administrator
from .cluster import Node, SimCluster
from .observer import Observer
from .plan import Plan
from .store import STORE
from .workload import Workload

_MOST_BROKERS = 5
_SETTINGS = (
    ("min.insync.replicas", ("2", "3")),
    ("replica.lag.time.max.ms", ("1500", "30000")),
    ("log.segment.bytes", ("5000", "20000")),
    ("num.replica.fetchers", ("1", "2")),
    ("replica.fetch.max.bytes", ("300", "1048576")),
    ("broker.session.timeout.ms", ("1500", "2000", "4000")),
)
"""What brokers may differ in.  Fewer in sync than two would be a weaker promise."""


class Nemesis:
    """Hurts a cluster and its clients until it is told to stop."""

    def __init__(
        self,
        cluster: SimCluster,
        workload: Workload,
        observer: Observer,
        administrator: Administrator,
        *,
        plan: Plan,
    ) -> None:
        self._cluster = cluster
        self._workload = workload
        self._observer = observer
        self._administrator = administrator
        self._chance = cluster.loop.chance_for("nemesis")
        self._plan = plan
        self._without = set(plan.without.split(","))
        """Kinds that are not done."""
        self._without_power: Node | None = None
        """The last that lost what was not synced, until it has everything again."""
        self._emptied = False
        """Whether that one lost all that it had."""
        self._healing: dict[asyncio.TimerHandle, Callable[[], None]] = {}
        self.deeds: Counter[str] = Counter()
        """How often each kind was done."""

    async def rage(self, seconds: float) -> None:
        """Do harm for this long; what is broken is mended after a while, the rest by `make_good`."""
        deadline = self._cluster.loop.time() + seconds
        deeds = self._deeds()
        while (left := deadline - self._cluster.loop.time()) > 0:
            await asyncio.sleep(min(left, self._chance.expovariate(1 / self._plan.calm_s)))
            deed = self._chance.choices([each for each, _ in deeds], [w for _, w in deeds])[0]
            self.deeds[_kind(deed)] += 1
            deed()

    def make_good(self) -> None:
        """Mend everything at once."""
        for timer, mend in list(self._healing.items()):
            timer.cancel()
            mend()
        self._healing.clear()
        self._cluster.network.heal_all()
        for node in self._cluster.nodes.values():
            node.resume()
            # Else a broker whose clock is behind by an hour refuses records for being of the future, as it should.
            node.clock.off_ms = node.clock.drift = 0.0
            if not node.running:
                node.start()
            node.wanted = True
        self._cluster.story.tell("nemesis", "rests, and everything is mended")

    def _deeds(self) -> list[tuple[Callable[[], None], float]]:
        """What this seed does, and how gladly."""
        all_deeds: list[tuple[Callable[[], None], float]] = [
            (self._kill, 3),
            (self._kill_the_controller, 1),
            (self._stop, 2),
            (self._pause, 2),
            (self._cut_link, 3),
            (self._isolate, 2),
            (self._slow_link, 2),
            (self._break_connection, 3),
            (self._step_clock, 1),
            (self._fill_disk, 1),
            (self._break_directory, 1),
            (self._make_read_only, 1),
            (self._lose_machine, 0.5),
            (self._change_settings, 0.5),
            (self._replace_client, 2),
            (self._administrator.act, 2),
        ]
        if len(self._cluster.nodes) > 1:
            all_deeds.append((self._add_broker, 1))
        if self._plan.power_cuts != "never":
            all_deeds += [(self._cut_power, 2), (self._empty_directory, 0.5)]
        # A seed that does a few things often finds other bugs than one that does everything.
        allowed = [each for each in all_deeds if _kind(each[0]) not in self._without]
        chosen = [each for each in allowed if self._chance.random() < 0.6]
        return chosen or allowed

    # ------------------------------------------------------------------ brokers

    def _kill(self) -> None:
        self._kill_node(self._some_node())

    def _kill_the_controller(self) -> None:
        self._kill_node(self._cluster.nodes.get(self._observer.controller()))

    def _kill_node(self, node: Node | None) -> None:
        if node is not None and node.running:
            node.kill()
            self._later(lambda: self._start(node), self._for_a_while())

    def _cut_power(self) -> None:
        node = self._some_node()
        if node is not None and self._may_lose_records():
            self._without_power = node
            node.cut_power()
            self._later(lambda: self._start(node), self._for_a_while())

    def _may_lose_records(self) -> bool:
        """Whether a broker may lose what it has not synced: nobody else has, or everything is synced before it counts."""
        return self._plan.power_cuts == "any" or self._all_have_everything()

    def _all_have_everything(self) -> bool:
        previous = self._without_power
        return (previous is None or previous.broker is not None) and not self._observer.behind()

    def _lose_machine(self) -> None:
        """Several brokers at once: with their power where that is allowed, else as processes."""
        running = [node for node in self._cluster.nodes.values() if node.running]
        if len(running) < 3:
            return
        lost = self._chance.sample(running, 2)
        self._tell(f"loses the machine of {', '.join(node.host for node in lost)}")
        for node in lost:
            if self._plan.power_cuts == "any":
                node.cut_power()
            else:
                node.kill()
        seconds = self._for_a_while()
        for node in lost:
            self._later(partial(self._start, node), seconds * (0.8 + 0.4 * self._chance.random()))

    def _stop(self) -> None:
        node = self._some_node()
        if node is not None and node.broker is not None and not node.paused:
            node.stop()
            self._later(lambda: self._start(node), self._for_a_while())

    def _start(self, node: Node) -> None:
        if node.running:  # still stopping: whoever waits no longer kills
            if node.wanted:
                return
            node.resume()
            node.kill()
        node.start()

    def _pause(self) -> None:
        node = self._some_node()
        if node is not None and node.running and not node.paused:
            node.pause()
            self._later(node.resume, self._for_a_while())

    def _add_broker(self) -> None:
        """A broker that nobody knew joins; the administrator may move replicas to it."""
        if len(self._cluster.nodes) < _MOST_BROKERS:
            node = self._cluster.add(max(self._cluster.nodes) + 1)
            self._tell(f"adds {node.host}")
            node.start()

    def _fill_disk(self) -> None:
        node = self._chance.choice(list(self._cluster.nodes.values()))
        self._tell(f"fills the disk of {node.host}")
        node.disk.fill()
        self._later(node.disk.free, self._for_a_while())

    def _break_directory(self) -> None:
        node = self._chance.choice(list(self._cluster.nodes.values()))
        self._spoil(node, node.disk.break_directory, "fails")

    def _make_read_only(self) -> None:
        node = self._chance.choice(list(self._cluster.nodes.values()))
        self._spoil(node, node.disk.make_read_only, "is read-only")

    def _spoil(self, node: Node, spoil: Callable[[str], None], how: str) -> None:
        """A log directory cannot be used for a while; then somebody mends it, and starts the broker again.

        Not while a broker that was emptied lacks something: with the others in doubt nobody would have a log to count on.
        """
        if self._emptied and not self._all_have_everything():
            return
        self._emptied = False
        directory = self._chance.choice(node.log_dirs)
        self._tell(f"{directory} {how}")
        spoil(directory)

        def mend() -> None:
            self._tell(f"{directory} is mended, and {node.host} is started again")
            node.disk.mend_directory(directory)
            node.resume()
            node.kill()
            node.start()

        self._later(mend, self._for_a_while())

    def _empty_directory(self) -> None:
        """A broker comes back without what it had: its volume was lost, and somebody says that it may begin anew."""
        node = self._some_node()
        if node is None or len(self._cluster.nodes) == 1 or not self._all_have_everything():
            return  # the only copy is not emptied
        self._without_power = node
        self._emptied = True
        node.kill()
        directory = self._chance.choice(node.log_dirs)
        self._tell(f"{directory} is empty")
        node.disk.empty(directory)
        node.accept_empty = True
        self._later(lambda: self._start(node), self._for_a_while())

    def _change_settings(self) -> None:
        """A broker gets another setting with its next start; the others keep theirs."""
        node = self._chance.choice(list(self._cluster.nodes.values()))
        name, values = self._chance.choice(_SETTINGS)
        node.settings[name] = value = self._chance.choice(values)
        self._tell(f"sets {name} of {node.host} to {value}")
        if node.running and node.broker is not None and not node.paused:
            node.stop()
            self._later(lambda: self._start(node), self._for_a_while())

    def _step_clock(self) -> None:
        node = self._chance.choice(list(self._cluster.nodes.values()))
        step = self._chance.choice((-3_000_000, -60_000, -500, 500, 60_000, 3_000_000))
        node.clock.off_ms += step
        node.clock.drift = self._chance.uniform(-0.01, 0.01)
        self._tell(f"steps the clock of {node.host} by {step} ms")

    # ------------------------------------------------------------------ the network

    def _cut_link(self) -> None:
        source, target = self._chance.sample(self._all_hosts(), 2)
        both = self._chance.random() < 0.5
        self._cut([(source, target)] + ([(target, source)] if both else []))

    def _isolate(self) -> None:
        host = self._chance.choice([each.host for each in self._cluster.nodes.values()])
        others = [each for each in self._all_hosts() if each != host]
        spared = self._chance.choice(("nobody", "store", "clients"))
        if spared == "store":
            others = [each for each in others if each != STORE]
        elif spared == "clients":  # who then reach both sides
            others = [each for each in self._cluster.hosts if each != host]
        ways = self._chance.choice(("in", "out", "both", "both"))
        links = [(each, host) for each in others if ways != "out"]
        links += [(host, each) for each in others if ways != "in"]
        self._cut(links)

    def _cut(self, links: list[tuple[str, str]]) -> None:
        seconds = self._for_a_while()
        told = ", ".join(f"{source}>{target}" for source, target in links)
        self._tell(f"cuts {told} for {seconds:.2f} s")
        for source, target in links:
            self._cluster.network.cut(source, target)

        def heal() -> None:
            self._tell(f"heals {told}")
            for source, target in links:
                self._cluster.network.heal(source, target)

        self._later(heal, seconds)

    def _slow_link(self) -> None:
        source, target = self._chance.sample(self._all_hosts(), 2)
        link = self._cluster.network.link(source, target)
        before = link.latency_s, link.jitter_s
        link.latency_s = self._chance.choice((0.02, 0.1, 0.5))
        link.jitter_s = self._chance.choice((0.0, 0.1, 1.0)) * link.latency_s
        self._tell(f"slows {source}>{target} to {link.latency_s * 1000:.0f} ms")

        def quicken() -> None:
            link.latency_s, link.jitter_s = before

        self._later(quicken, self._for_a_while())

    def _break_connection(self) -> None:
        pipes = [
            pipe
            for source in self._all_hosts()
            for node in self._cluster.nodes.values()
            for pipe in self._cluster.network.connections(source, node.host)
        ]
        if pipes:
            pipe = self._chance.choice(pipes)
            self._tell(f"breaks a connection {pipe.source.host}>{pipe.target.host}")
            self._cluster.network.break_connection(pipe)

    # ------------------------------------------------------------------ clients

    def _replace_client(self) -> None:
        roles = sorted(self._workload.processes)
        if roles:
            self._workload.replace(self._chance.choice(roles))

    # ------------------------------------------------------------------

    def _some_node(self) -> Node | None:
        running = [node for node in self._cluster.nodes.values() if node.running]
        return self._chance.choice(running) if running else None

    def _all_hosts(self) -> list[str]:
        clients = [process.host for _, process in sorted(self._workload.processes.items())]
        return self._cluster.hosts + clients

    def _for_a_while(self) -> float:
        return self._chance.choice((0.1, 0.5, 1.0, 2.5, 5.0)) * (0.5 + self._chance.random())

    def _later(self, mend: Callable[[], None], seconds: float) -> None:
        def do() -> None:
            self._healing.pop(timer, None)
            mend()

        timer = self._cluster.loop.call_later(seconds, do)
        self._healing[timer] = mend

    def _tell(self, what: str) -> None:
        self._cluster.story.tell("nemesis", what)


def _kind(deed: Callable[[], None]) -> str:
    return deed.__name__.lstrip("_").replace("_", " ")
