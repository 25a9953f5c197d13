"""One run of the simulation: a seed in, an outcome with its story out.

outcome = simulate(17)
outcome.violations      [] or what was broken, a line each
outcome.trace           a checksum over every delivery; the same seed gives the same
"""

import asyncio
import contextlib
import gc
import logging
import os
import random
import sys
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from random import Random

from tidelog.dataclass import dataclass

from .administrator import Administrator
from .checker import violations
from .cleaning import cleaning_in_process
from .cluster import SimCluster
from .group_checker import groups_are_at_the_end
from .history import History
from .inspector import differing_replicas, watching
from .loop import SimLoop, Stuck
from .nemesis import Nemesis
from .observer import Observer
from .plan import Plan
from .scenario import Director, Scenario
from .story import LogsToStory, Story
from .transactional import COPY, OWN, TransactionalWorkload
from .workload import GROUP, LATE_GROUP, Workload, noting_commits

TOPIC = "t"
_CALM_AGAIN_S = 90.0
"""After everything is mended, so long may it take until all is well again."""

_NEAREST = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_CLEANER = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "offsets.topic.segment.bytes": "2000",
}

_SETTLE_S = 40.0
"""A follower whose connection died without a word asks again after replica.socket.timeout.ms, 30 s."""


@dataclass(slots=True)
class Outcome:
    seed: int
    plan: Plan
    story: Story
    history: History
    trace: int
    virtual_s: float
    turns: int
    deliveries: int
    deeds: Counter[str]
    """By kind, how often something was done to the cluster."""

    @property
    def violations(self) -> list[str]:
        return self.story.violations


def simulate(
    seed: int, plan: Plan | None = None, *, scenario: Scenario | None = None, show: bool = False
) -> Outcome:
    """Run one seed to its end; with a scenario, what goes wrong is what it says."""
    if scenario is not None:
        plan = scenario.plan
    with _from_the_seed_alone(seed), _quiet_burial():
        loop = SimLoop(seed)
        try:
            return _simulate(loop, seed, plan or Plan.by_seed(seed), scenario, show)
        finally:
            loop.forget_the_dead()
            loop.close()


def _simulate(
    loop: SimLoop, seed: int, plan: Plan, scenario: Scenario | None, show: bool
) -> Outcome:
    story = Story(loop.time, show=show)
    run = _Run(seed, plan, loop, story)
    with (
        _logs_to(story),
        watching(story, unclean=plan.unclean, synced=plan.sync_every_write),
        noting_commits(run.history, loop.time),
        cleaning_in_process(run.cluster),
    ):
        try:
            loop.run_until_complete(run.main(scenario))
        except Stuck as error:
            story.violation(f"stuck: {error}")
        for message, failure in loop.failures:
            story.tell("simulation", "".join(traceback.format_exception(failure)))
            story.violation(f"unexpected {type(failure).__name__}: {failure} ({message})")
    return Outcome(
        seed,
        plan,
        story,
        run.history,
        run.cluster.network.trace,
        loop.time(),
        loop.turns,
        run.cluster.network.delivered,
        run.nemesis.deeds,
    )


class _Run:
    """The parts of one run."""

    def __init__(self, seed: int, plan: Plan, loop: SimLoop, story: Story) -> None:
        self.plan = plan
        self.loop = loop
        self.story = story
        self.history = History()
        factor = min(plan.brokers, 3)
        settings = {
            "offsets.topic.replication.factor": str(factor),
            "transaction.state.log.replication.factor": str(factor),
            "default.replication.factor": str(factor),
            "min.insync.replicas": str(min(plan.min_insync, factor)),
            **({"unclean.leader.election.enable": "true"} if plan.unclean else {}),
            **({"log.flush.interval.messages": "1"} if plan.sync_every_write else {}),
            **({"replica.selector.class": _NEAREST} if plan.racks else {}),
            **(_CLEANER if plan.cleaner else {}),
            **plan.settings,
        }
        self.cluster = SimCluster(
            loop, story, brokers=plan.brokers, settings=settings, log_dirs=plan.log_dirs
        )
        self.workload = Workload(self.cluster, self.history, unclean=plan.unclean)
        self.transactional = TransactionalWorkload(self.workload)
        self.observer = Observer(self.cluster.store)
        self.administrator = Administrator(
            self.cluster, self.observer, TOPIC, loop.chance_for("administrator")
        )
        self.nemesis = Nemesis(
            self.cluster,
            self.workload,
            self.observer,
            self.administrator,
            plan=plan,
        )
        story.tell("simulation", f"seed {seed}: {plan}")

    async def main(self, scenario: Scenario | None) -> None:
        plan, workload = self.plan, self.workload
        await self.cluster.start()
        await self._as_client("creator", partial(self._create, min(plan.brokers, 3)))
        for number in range(plan.producers):
            workload.start(f"p{number}", partial(workload.produce, topic=TOPIC))
        for number in range(plan.consumers):
            workload.start(f"c{number}", partial(workload.consume, topic=TOPIC))
        if plan.weak:
            workload.start("a0", partial(workload.produce, topic=TOPIC, weakly=True))
        self.history.groups = {GROUP: "c"}
        if plan.late:
            self.history.groups[LATE_GROUP] = "l"
            late = partial(workload.consume, topic=TOPIC, group=LATE_GROUP, reset="latest")
            workload.start("l0", late)
        workload.start("w0", partial(workload.watch_ends, topic=TOPIC))
        if plan.racks:
            workload.start("n0", partial(workload.read_near, topic=TOPIC))
        workload.start("g0", partial(workload.watch_groups, topic=TOPIC))
        if plan.transactions:
            workload.start("x0", self.transactional.produce)
            workload.start("y0", partial(self.transactional.copy, topic=TOPIC))
            workload.start("r0", partial(self.transactional.watch, topic=OWN))
        if scenario is None:
            await self.nemesis.rage(plan.seconds)
        else:
            first = self.observer.image.topics[TOPIC].partitions[0]
            replicas = sorted(first.replicas, key=lambda each: each != first.leader)
            director = Director(self.cluster, workload, self.administrator, replicas)
            await director.perform(scenario)
        self.nemesis.make_good()
        await self._come_to_rest()
        for line in violations(self.history, unclean=plan.unclean):
            self.story.violation(line)

    async def _create(self, factor: int, _: str) -> None:
        topics = {TOPIC: self.plan.partitions}
        if self.plan.transactions:
            topics |= {OWN: 2, COPY: 2}
        await self.workload.create_topics(topics, factor, {})

    async def _come_to_rest(self) -> None:
        """Everything that was begun ends, and the last reader reads everything."""
        workload, until = self.workload, self.cluster.until
        if not await until(
            lambda: all(node.broker is not None for node in self.cluster.nodes.values()),
            _CALM_AGAIN_S,
        ):
            down = [n.host for n in self.cluster.nodes.values() if n.broker is None]
            self.story.violation(f"did not recover: {', '.join(down)} could not be started")
            return
        if not await until(lambda: not self.observer.behind(), _CALM_AGAIN_S):
            self.story.violation(
                f"did not recover: not in sync again: {'; '.join(self.observer.behind())}"
            )
        if not self.plan.fresh:
            self.history.fresh_from = self.loop.time()
        workload.producing = False
        if not await until(lambda: not self._roles("p", "x", "a"), _CALM_AGAIN_S):
            self.story.violation("did not recover: a producer waits for its acknowledgements")
        await self._as_client("last", partial(workload.read_all, topic=TOPIC))
        self.history.groups_at_end = await until(self._groups_have_all, _CALM_AGAIN_S)
        if not self.history.groups_at_end:
            self.story.violation("did not recover: the group does not come to the end")
            self.history.groups_at_end = True  # which tells what is unseen
        if self.plan.transactions:
            await self._as_client("last of all", self._end_of_transactions)
        workload.consuming = False
        if not await until(lambda: not workload.processes, _CALM_AGAIN_S):
            left = ", ".join(sorted(workload.processes))
            self.story.violation(f"did not recover: these clients do not close: {left}")
        if not await until(self._replicas_agree, _SETTLE_S):
            for line in self._differing():
                self.story.violation(line)

    async def _end_of_transactions(self, name: str) -> None:
        """Nothing is open any more, and everything is copied."""
        deadline = self.loop.time() + _CALM_AGAIN_S / 2
        while held := await self.transactional.held_back(name):
            if self.loop.time() > deadline:
                self.story.violation(f"did not recover: open transactions hold back {held}")
                return
            await asyncio.sleep(0.5)
        rows = await self.transactional.read_all(OWN, name)
        self.history.committed_polls["the last reader"] = rows
        wanted = {value for each in self.history.final.values() for _, value in each}
        while True:
            copied = [each.value or "" for each in await self.transactional.read_all(COPY, name)]
            if wanted <= set(copied) or self.loop.time() > deadline:
                break
            await asyncio.sleep(1.0)
        self.history.copied = copied

    def _differing(self) -> Iterator[str]:
        """Replicas that differ; those of compacted topics do, each is cleaned by its own broker."""
        image = self.observer.image
        compacted = {"__consumer_offsets", "__transaction_state"} if self.plan.cleaner else set()
        return differing_replicas(self.cluster, image, without=compacted)

    def _replicas_agree(self) -> bool:
        return not any(self._differing())

    def _roles(self, *prefixes: str) -> list[str]:
        return [role for role in self.workload.processes if role.startswith(prefixes)]

    def _groups_have_all(self) -> bool:
        wanted = {value for rows in self.history.final.values() for _, value in rows}
        for who, polls in self.history.polls.items():
            if who.startswith("c"):
                wanted -= {each.value for each in polls if each.value is not None}
        return not wanted and groups_are_at_the_end(self.history)

    async def _as_client(self, name: str, work: Callable[[str], Awaitable[None]]) -> None:
        """Run the work of a client, again if it fails, and wait for its end."""
        done = self.loop.create_future()

        async def attempt() -> None:
            for left in (3, 2, 1, 0):
                try:
                    await work(name)
                    break
                except Exception as error:  # noqa: BLE001
                    self.story.tell(name, f"failed: {error!r}")
                    if not left:
                        self.story.violation(f"did not recover: {name} failed: {error!r}")
                    await asyncio.sleep(0.5)
            done.set_result(None)

        self.cluster.client(name, attempt())
        try:
            await asyncio.wait_for(done, _CALM_AGAIN_S)
        except TimeoutError:
            self.story.violation(f"did not recover: {name} does not come to its end")


@contextlib.contextmanager
def _from_the_seed_alone(seed: int) -> Iterator[None]:
    """Let everything that is random in this process come from the seed, and nothing be collected at random times."""
    state, urandom = random.getstate(), os.urandom
    bits = Random(f"urandom {seed}")
    random.seed(f"random {seed}")
    os.urandom = bits.randbytes
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        os.urandom = urandom
        random.setstate(state)
        if collecting:
            gc.enable()


@contextlib.contextmanager
def _logs_to(story: Story) -> Iterator[None]:
    logger = logging.getLogger("tidelog")
    before = logger.level, logger.propagate
    handler = LogsToStory(story)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


@contextlib.contextmanager
def _quiet_burial() -> Iterator[None]:
    """What is collected after the run says nothing: it belongs to processes that were killed."""
    hook, level = sys.unraisablehook, logging.root.manager.disable
    try:
        yield
        sys.unraisablehook = lambda _: None
        logging.disable(logging.CRITICAL)
        gc.collect()
    finally:
        sys.unraisablehook = hook
        logging.disable(level)
