"""A broker and its faults on one event loop, and what a test may have done there.

`Hosted` is the same whether its loop runs in a thread of the test's process or in a child process: a test reaches it by
`call(name, arguments)`, where both are plain values, and the result is one too.  `COMMANDS` is all that there is.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.context import Services
from tidelog.broker.dispatch import Serving
from tidelog.broker.settings import BrokerSettings
from tidelog.cluster.topics import NewTopic
from tidelog.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from tidelog.metastore.contract import Metastore
from tidelog.network.peer import Address
from tidelog.testing.fault_table import FaultTable
from tidelog.testing.faults import Spec
from tidelog.testing.shifted_time import Shift, ShiftedClock

_SETTLING_ROUNDS = 100
"""Turns of the loop after which what became due by a step of time is done: none of it waits for anything but the loop."""


class Hosted:
    """One broker that can be ended and started again on its data."""

    def __init__(self, shift: Shift, make_metastore: Callable[[], Metastore]) -> None:
        self._shift = shift
        self._make_metastore = make_metastore
        self._faults = FaultTable()
        self._broker: Broker | None = None
        self._services: Services | None = None

    async def start(self, settings: BrokerSettings) -> Address:
        """Bring the broker up; where it listens."""
        broker = Broker(
            settings,
            clock=ShiftedClock(self._shift),
            metastore=self._make_metastore(),
            intercept=self._intercept,
        )
        await broker.start()
        self._broker = broker
        return broker.addresses[0]

    async def abort(self) -> None:
        """End as if the process had been killed; the faults end too."""
        broker, self._broker = self._broker, None
        self._faults.clear()
        if broker is not None:
            await broker.abort()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Do what a test asks for."""
        if name not in COMMANDS:
            raise ValueError(f"there is no command {name!r}")
        return await getattr(self, name)(**arguments)

    # ------------------------------------------------------------------ commands

    async def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str], again: bool
    ) -> None:
        """Make a topic; `again` deletes one that is there already."""
        if again:
            await self.delete_topics([topic])
        wanted = NewTopic(
            name=topic, partitions=partitions, replication_factor=-1, configs=dict(configs)
        )
        (outcome,) = await self._running().controller.create_topics([wanted])
        if isinstance(outcome, TopicAlreadyExists):
            raise TopicAlreadyExists(f"topic {topic} exists already")
        if isinstance(outcome, KafkaError):
            raise outcome

    async def delete_topics(self, topics: list[str]) -> None:
        """Delete topics; those that are not there are no error."""
        for outcome in await self._running().controller.delete_topics(topics):
            if isinstance(outcome, KafkaError) and not isinstance(outcome, UnknownTopicOrPartition):
                raise outcome

    async def leaders(self, topic: str) -> list[int]:
        """The leaders of a topic's partitions as this broker knows them; none if it does not know the topic."""
        known = self._running().image().topics.get(topic)
        return [] if known is None else [each.leader for each in known.partitions]

    async def arm(self, spec: Mapping[str, Any]) -> int:
        return self._faults.arm(Spec(**{**spec, "api_keys": tuple(spec["api_keys"])}))

    async def disarm(self, number: int) -> None:
        self._faults.disarm(number)

    async def struck(self, number: int) -> int:
        return self._faults.struck(number)

    async def clear(self) -> None:
        self._faults.clear()

    async def advance(self, seconds: float) -> None:
        """Put time forward and have done what is due by then."""
        self._shift.advance(seconds)
        for _ in range(_SETTLING_ROUNDS):
            await asyncio.sleep(0)
        # It looks every five minutes; a test that steps over the retention of a topic need not know that.
        await self._running().logs.apply_retention()

    async def reset(self) -> None:
        """The test is over: end its faults, and put the wall clock back."""
        self._faults.clear()
        self._shift.reset()

    # ------------------------------------------------------------------ inside

    def _intercept(self, inner: Serving, services: Services) -> Serving:
        self._services = services
        return self._faults.stand_before(inner, services)

    def _running(self) -> Services:
        if self._broker is None or self._services is None:
            raise RuntimeError("the broker is not running; start it with broker.restart()")
        return self._services


COMMANDS = frozenset(
    {
        "create_topic",
        "delete_topics",
        "leaders",
        "arm",
        "disarm",
        "struck",
        "clear",
        "advance",
        "reset",
    }
)


def settings_for(directory: str, port: int, given: Mapping[str, str]) -> BrokerSettings:
    """Settings that suit tests, under what the test has given."""
    return BrokerSettings.load(
        {
            "log.dirs": directory,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            **FOR_TESTS,
            **given,
        }
    )


FOR_TESTS = {
    "group.initial.rebalance.delay.ms": "0",  # a group of one need not wait for others
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.segment.delete.delay.ms": "1000",  # the topics of a thousand tests shall not pile up
    "log.cleaner.enable": "false",
}
