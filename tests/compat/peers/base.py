"""What a scenario may ask of a foreign client.

A `Peer` is one client library pointed at one broker.  What the library itself cannot do is left out of its
`can`; the scenarios then do not run for it.  A `Member` is one consumer of a group, running in a thread (or
a child process) of its own until it is closed.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

PATIENCE_S = 120.0  # how long a scenario waits for something that must happen; never a measurement


@dataclass(frozen=True, slots=True)
class Message:
    """A message as any client sees it; offset and partition are set on what was read."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None
    offset: int | None = field(default=None, compare=False)


class Member(ABC):
    """A consumer of a group: `partitions` it owns now, `messages` it has seen, in order."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._partitions: frozenset[int] = frozenset()
        self._messages: list[Message] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    @property
    def partitions(self) -> frozenset[int]:
        return self._partitions

    @property
    def messages(self) -> list[Message]:
        with self._changed:
            return list(self._messages)

    def wait(self, condition: Callable[[Self], object], what: str) -> None:
        """Wait until `condition(self)` holds; it is looked at whenever this member sees something new."""
        with self._changed:
            done = self._changed.wait_for(
                lambda: self._failure is not None or condition(self), PATIENCE_S
            )
        if self._failure is not None:
            raise AssertionError(f"the member failed while waiting for {what}") from self._failure
        assert done, (
            f"never saw: {what}; owns {sorted(self._partitions)}, {len(self._messages)} messages"
        )

    def owns(self, count: int) -> None:
        """Wait until this member owns `count` partitions."""
        self.wait(lambda me: len(me._partitions) == count, f"ownership of {count} partitions")

    def close(self) -> None:
        """Commit what was seen, and leave the group."""
        self._closing.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the member did not close"
        if self._failure is not None:
            raise AssertionError("the member failed") from self._failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _run(self) -> None:
        """Consume until `_closing` is set; tell of every change by `_own` and `_see`."""

    def _own(self, partitions: Sequence[int] | frozenset[int]) -> None:
        with self._changed:
            if self._partitions != frozenset(partitions):
                self._partitions = frozenset(partitions)
                self._changed.notify_all()

    def _see(self, messages: Sequence[Message]) -> None:
        if messages:
            with self._changed:
                self._messages.extend(messages)
                self._changed.notify_all()

    def _main(self) -> None:
        try:
            self._run()
        except BaseException as failure:  # noqa: BLE001 - told to the test's thread
            with self._changed:
                self._failure = failure
                self._changed.notify_all()


class Peer(ABC):
    """One client library, pointed at one broker."""

    name: ClassVar[str]
    codecs: ClassVar[tuple[str, ...]] = ("none", "gzip", "snappy", "lz4", "zstd")
    can: ClassVar[frozenset[str]] = frozenset({"admin", "timestamps", "headers", "idempotence"})

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @classmethod
    def why_absent(cls) -> str | None:
        """Why this client cannot run here, or None."""
        return None

    @abstractmethod
    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        compression: str = "none",
        idempotent: bool = False,
    ) -> None:
        """Send all and wait until each is acknowledged by all replicas."""

    @abstractmethod
    def consume(self, topic: str, partition: int, count: int) -> list[Message]:
        """The first `count` messages of a partition."""

    @abstractmethod
    def consume_from(
        self, topic: str, partition: int, timestamp_ms: int, count: int
    ) -> list[Message]:
        """`count` messages from the first that is not older than a time."""

    @abstractmethod
    def member(self, group: str, topic: str) -> Member:
        """Join a group, reading from the beginning where nothing is committed."""

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        raise NotImplementedError

    def delete_topic(self, topic: str) -> None:
        raise NotImplementedError

    def topics(self) -> set[str]:
        """All topics that the broker tells of."""
        raise NotImplementedError

    def topic_configs(self, topic: str) -> dict[str, str]:
        raise NotImplementedError

    def alter_topic_config(self, topic: str, name: str, value: str) -> None:
        raise NotImplementedError
