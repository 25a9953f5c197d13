"""What the pytest fixture `tidelog` gives to a test: a broker that it shares, and names that it does not.

    def test_orders(tidelog):
        topic = tidelog.topic("orders")             # fresh, empty, of this test alone
        run_my_application(tidelog.bootstrap, topic, group=tidelog.group("billing"))
        assert [each.value for each in tidelog.messages(topic, 2)] == [b"a", b"b"]

The clients behind `produce`, `messages` and `admin` are tidelog's own; faults spare them.
"""

import contextlib
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from tidelog.errors import KafkaError
from tidelog.names import TopicPartition
from tidelog.testing.faults import OWN_CLIENT_ID, Faults

if TYPE_CHECKING:  # imported when a test uses them: most have clients of their own
    from tidelog.client.admin import Admin
    from tidelog.client.batch import RecordMetadata
    from tidelog.client.blocking_consumer import Consumer
    from tidelog.client.blocking_producer import Producer
    from tidelog.client.message import Message
    from tidelog.client.options import IsolationLevel
    from tidelog.testing.fixture_broker import FixtureBroker

_EARLIEST, _LATEST = -2, -1
_POLL_S = 0.05
_LONGEST_SUFFIX = 80
_LONGEST_NAME = 249


class Stage(ABC):
    """Names, topics and messages of one test, whatever serves them."""

    def __init__(self, suffix: str) -> None:
        """`suffix` ends all names of the test; it is used by no other test of the session."""
        self._suffix = re.sub(r"[^A-Za-z0-9_-]+", "-", suffix)[-_LONGEST_SUFFIX:]
        self._topics: dict[str, str] = {}
        """By the name that the test gave, the one that it has."""
        self._made: dict[str, tuple[int, dict[str, str]]] = {}
        """How many partitions each has, and which settings."""
        self._producer: Producer | None = None
        self._admin: Admin | None = None

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """The address to give to a client."""

    @property
    def admin(self) -> "Admin":
        """A client for administration."""
        if self._admin is None:
            from tidelog.client.admin import Admin

            self._admin = Admin(self._config())
        return self._admin

    # ------------------------------------------------------------------ names

    def name(self, word: str) -> str:
        """The word with the test's suffix: for transactional ids, and whatever else must differ between tests."""
        return f"{word[: _LONGEST_NAME - len(self._suffix) - 1]}-{self._suffix}"

    def group(self, word: str = "group") -> str:
        """The name of a group of this test."""
        return self.name(word)

    def _again(
        self, word: str, partitions: int | None, configs: Mapping[str, object] | None
    ) -> str:
        """The topic was asked for before: give it the partitions that it lacks, or say what cannot be."""
        name = self._topics[word]
        there, given = self._made[word]
        if configs is not None and texts_of(configs) != given:
            raise ValueError(
                f"topic({word!r}) was made with configs={given}, not {texts_of(configs)}; "
                "use another name, or admin.alter_topic_configs"
            )
        if partitions is not None and partitions < there:
            raise ValueError(
                f"topic({word!r}) has {there} partitions and cannot have {partitions}; use another name"
            )
        if partitions is not None and partitions > there:
            self.admin.add_partitions(name, partitions)
            self._made[word] = (partitions, given)
        return name

    # ------------------------------------------------------------------ messages

    def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> "list[RecordMetadata]":
        """Write messages and return where they are; all have the same key and headers."""
        if self._producer is None:
            from tidelog.client.blocking_producer import Producer

            self._producer = Producer(self._config())
        sent = [
            self._producer.send(topic, _octets(each), _octets(key), headers, timestamp, partition)
            for each in values
        ]
        return [each.result() for each in sent]

    def messages(
        self,
        topic: str,
        count: int | None = None,
        *,
        timeout: float = 10.0,
        read_committed: bool = False,
    ) -> "list[Message]":
        """All that the topic holds, by partition and offset; with `count` once there are so many.

        `TimeoutError` tells what was there instead.
        """
        from tidelog.client.blocking_consumer import Consumer

        isolation: IsolationLevel = "read_committed" if read_committed else "read_uncommitted"
        found: list[Message] = []
        with Consumer(self._config(), isolation_level=isolation) as consumer:
            wanted = [TopicPartition(topic, number) for number in range(self._partitions(topic))]
            begins = consumer.find_offsets(dict.fromkeys(wanted, _EARLIEST))
            ends = {
                tp: each.offset
                for tp, each in consumer.find_offsets(dict.fromkeys(wanted, _LATEST)).items()
            }
            consumer.assign({tp: each.offset for tp, each in begins.items()})
            for tp, each in begins.items():
                consumer.seek(*tp, each.offset)
            deadline = time.monotonic() + timeout
            while not _enough(consumer, found, count, ends):
                found += consumer.poll(timeout=_POLL_S)
                if time.monotonic() > deadline and not _enough(consumer, found, count, ends):
                    raise TimeoutError(_too_few(topic, found, count, timeout))
        return sorted(found, key=lambda each: (each.partition, each.offset))[:count]

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The offsets that a group has committed."""
        return {tp: each.offset for tp, each in self.admin.group_offsets(group).items()}

    # ------------------------------------------------------------------ life

    def close_clients(self) -> None:
        """End the clients that were made for the test."""
        for client in (self._producer, self._admin):
            if client is not None:
                client.close()

    def _config(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap, "client.id": OWN_CLIENT_ID}

    def _partitions(self, topic: str) -> int:
        return len(self.admin.describe_topics([topic])[topic].partitions)


class Tidelog(Stage):
    """A test's own part of a broker."""

    def __init__(self, broker: "FixtureBroker", suffix: str) -> None:
        super().__init__(suffix)
        self.broker = broker
        """Can be killed, restarted, paused and resumed; the next test finds it running whatever was done."""
        self.faults = Faults(broker)

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def topic(
        self,
        word: str = "topic",
        partitions: int | None = None,
        *,
        exact: bool = False,
        configs: Mapping[str, object] | None = None,
    ) -> str:
        """The name of a topic of this test, which is made when it is first asked for, with one partition unless told.

        With `exact` it has that very name, for applications that cannot be told another; what was in it is deleted.  Asked
        for again with more partitions, it grows.
        """
        if word in self._topics:
            return self._again(word, partitions, configs)
        name = word if exact else self.name(word)
        total, given = partitions or 1, texts_of(configs)
        self.broker.call("create_topic", topic=name, partitions=total, configs=given, again=exact)
        self._topics[word] = name
        self._made[word] = (total, given)
        return name

    def advance(self, **time: float) -> None:
        """Put the broker's time forward and have done what is due: `advance(minutes=10)`.

        The arguments are those of `datetime.timedelta`.  It is as if nothing had reached the broker meanwhile: members of
        groups whose session is shorter are gone, idle transactions aborted, old segments deleted.
        """
        self.broker.call("advance", seconds=seconds_of(**time))

    def close(self) -> None:
        """End the test's clients and faults, and delete its topics."""
        if not self.broker.running:
            self.broker.start()
        self.broker.resume()
        self.broker.call("reset")
        self.close_clients()
        with contextlib.suppress(KafkaError):
            self.broker.call("delete_topics", topics=list(self._topics.values()))


def texts_of(configs: Mapping[str, object] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (configs or {}).items()}


def seconds_of(**time: float) -> float:
    """A length of time in the words of `datetime.timedelta`."""
    seconds = timedelta(**time).total_seconds()
    if seconds < 0:
        raise ValueError("time does not go back")
    return seconds


def _enough(
    consumer: "Consumer", found: "list[Message]", count: int | None, ends: dict[TopicPartition, int]
) -> bool:
    if count is not None:
        return len(found) >= count
    return all(consumer.position(*tp) >= end for tp, end in ends.items())


def _too_few(topic: str, found: "list[Message]", count: int | None, timeout: float) -> str:
    values = ", ".join(repr(each.value) for each in found[:10])
    wanted = "all" if count is None else f"{count}"
    return f"{topic} has {len(found)} messages after {timeout:g} s, not {wanted}: [{values}]"


def _octets(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
