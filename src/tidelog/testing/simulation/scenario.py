"""Runs with a written schedule instead of a nemesis: the faults that once found a bug, kept as text.

    # why this is kept
    seed 2
    plan brokers=3 partitions=1 producers=1 seconds=8
    2.0  power b2
    2.2  stop b1
    2.4  cut b1>b3 b3>b1
    5.0  start b2

A line is a time in seconds and what happens then: kill, power, stop, start, pause or resume a broker; cut or heal links;
slow a link (`slow b1>b2 500`, in ms); break the connections from one host to another; step a clock (`clock b1 -60000`);
lose files of a broker that is down (`lose b1 t-0/partition.metadata`); fill its disk, or free it; let a log directory fail
(`eio b1`, `eio b1 1`), be read-only or empty (`accept b1` says that what was there is gone for good), and mend it; change its settings file
(`set b1 min.insync.replicas=1`, which counts from its next start);
replace a client; `grow`, `elect`, `move t-0 3,1,2`, `create s0 3`, `delete s0`.  At the end everything is mended and judged.

`leader`, `second` and `third` stand for the brokers that hold t-0 when it begins, the leader first.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from .administrator import Administrator
from .cluster import Node, SimCluster
from .plan import Plan
from .workload import Workload


class Step(NamedTuple):
    time: float
    action: str
    arguments: tuple[str, ...]


class Scenario(NamedTuple):
    plan: Plan
    steps: tuple[Step, ...]
    seed: int = 1


def parse(text: str) -> Scenario:
    """The scenario that a text tells; ValueError names the line that says nothing."""
    plan = Plan(producers=1, consumers=1, partitions=1, seconds=0.0, power_cuts="never")
    steps: list[Step] = []
    seed = 1
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if words[0] == "plan":
            plan = _plan(words[1:], plan)
            continue
        if words[0] == "seed":
            seed = int(words[1])
            continue
        try:
            step = Step(float(words[0]), words[1], tuple(words[2:]))
            if step.action not in _ACTIONS:
                raise ValueError(step.action)
        except (ValueError, IndexError):
            raise ValueError(f"line {number} is not a step: {line!r}") from None
        steps.append(step)
    return Scenario(plan, tuple(sorted(steps, key=lambda each: each.time)), seed)


class Director:
    """Lets a scenario happen."""

    def __init__(
        self,
        cluster: SimCluster,
        workload: Workload,
        administrator: Administrator,
        replicas: Sequence[int],
    ) -> None:
        """`replicas` hold the first partition, its leader first."""
        self.cluster = cluster
        self._roles = {
            role: f"b{broker_id}"
            for role, broker_id in zip(("leader", "second", "third"), replicas, strict=False)
        }
        self.workload = workload
        self.administrator = administrator

    async def perform(self, scenario: Scenario) -> None:
        """Do every step at its time; times count from the moment that the clients have begun."""
        loop = self.cluster.loop
        begin = loop.time()
        for step in scenario.steps:
            await asyncio.sleep(max(0.0, begin + step.time - loop.time()))
            if step.action not in ("kill", "power", "stop", "pause", "resume", "start"):
                told = " ".join((step.action, *step.arguments))
                self.cluster.story.tell("scenario", told)
            _ACTIONS[step.action](self, *map(self._named, step.arguments))
        await asyncio.sleep(max(0.0, begin + scenario.plan.seconds - loop.time()))

    def _named(self, argument: str) -> str:
        """The argument with the names of hosts in the place of their roles."""
        return ">".join(self._roles.get(each, each) for each in argument.split(">"))

    def node(self, host: str) -> Node:
        return self.cluster.nodes[int(host.removeprefix("b"))]

    def start(self, host: str) -> None:
        node = self.node(host)
        if not node.running:
            node.start()

    def cut(self, *links: str) -> None:
        for link in links:
            self.cluster.network.cut(*link.split(">"))

    def heal(self, *links: str) -> None:
        for link in links:
            self.cluster.network.heal(*link.split(">"))

    def slow(self, link: str, ms: str) -> None:
        found = self.cluster.network.link(*link.split(">"))
        found.latency_s = int(ms) / 1000

    def sever(self, link: str) -> None:
        for pipe in self.cluster.network.connections(*link.split(">")):
            self.cluster.network.break_connection(pipe)

    def lose(self, host: str, *files: str) -> None:
        for file in files:
            for directory in self.node(host).log_dirs:
                self.node(host).disk.remove_tree(f"{directory}/{file}")

    def spoil(self, host: str, directory: str = "0", *, read_only: bool = False) -> None:
        node = self.node(host)
        spoil = node.disk.make_read_only if read_only else node.disk.break_directory
        spoil(node.log_dirs[int(directory)])

    def mend(self, host: str, directory: str = "0") -> None:
        node = self.node(host)
        node.disk.mend_directory(node.log_dirs[int(directory)])

    def empty(self, host: str, directory: str = "0") -> None:
        node = self.node(host)
        node.disk.empty(node.log_dirs[int(directory)])

    def set(self, host: str, *settings: str) -> None:
        for each in settings:
            name, _, value = each.partition("=")
            self.node(host).settings[name] = value

    def clock(self, host: str, ms: str) -> None:
        self.node(host).clock.off_ms += int(ms)

    def move(self, partition: str, replicas: str) -> None:
        index = int(partition.rpartition("-")[2])
        self.administrator.move_to(index, [int(each) for each in replicas.split(",")])


_ACTIONS: dict[str, Callable[..., Any]] = {
    "kill": lambda director, host: director.node(host).kill(),
    "power": lambda director, host: director.node(host).cut_power(),
    "stop": lambda director, host: director.node(host).stop(),
    "pause": lambda director, host: director.node(host).pause(),
    "resume": lambda director, host: director.node(host).resume(),
    "start": Director.start,
    "cut": Director.cut,
    "heal": Director.heal,
    "slow": Director.slow,
    "break": Director.sever,
    "lose": Director.lose,
    "accept": lambda director, host: setattr(director.node(host), "accept_empty", True),
    "fill": lambda director, host: director.node(host).disk.fill(),
    "free": lambda director, host: director.node(host).disk.free(),
    "eio": Director.spoil,
    "read-only": lambda director, *of: director.spoil(*of, read_only=True),
    "mend": Director.mend,
    "empty": Director.empty,
    "set": Director.set,
    "clock": Director.clock,
    "replace": lambda director, role: director.workload.replace(role),
    "grow": lambda director: director.administrator.grow(),
    "elect": lambda director: director.administrator.elect(),
    "create": lambda director, name, factor: director.administrator.create_topic(name, int(factor)),
    "delete": lambda director, name: director.administrator.delete_topic(name),
    "move": Director.move,
}


def _plan(words: list[str], plan: Plan) -> Plan:
    kinds = {each.name: each.type for each in fields(Plan)}
    values: dict[str, Any] = {each.name: getattr(plan, each.name) for each in fields(Plan)}
    for word in words:
        name, _, text = word.partition("=")
        kind = kinds.get(name)
        if kind is None:
            values["settings"] = {**values["settings"], name: text}
        elif kind is bool:
            values[name] = text == "true"
        else:
            values[name] = kind(text) if kind in (int, float, str) else values[name]
    return Plan(**values)
