"""The partitions that a consumer reads, where it stands in each, and what was fetched ahead.

Shared by the loop, which fetches, and the reader's threads, which take; one lock guards what is changed by both.
For each partition there are three offsets:

    settled <= position <= fetch_offset

`fetch_offset` is the next to ask the broker for, `fetched_epoch` the leader epoch of the record before it, `position` the next to hand out, and everything before `settled` is
known to be done with, because the reader came back for more.  A seek sets all three, and raises the partition's
`epoch`, so that what was fetched for the old place is dropped.  `version` grows with everything that may make a
reader change its course; it looks at that number after each message.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from tidelog.client.decoding import Chunk
from tidelog.client.group_requests import CommittedOffset
from tidelog.client.message import Message
from tidelog.errors import TidelogError
from tidelog.names import TopicPartition

COMMITTED = -3
"""To be placed where the group has committed, else where auto.offset.reset says; -1 and -2 are the end and the beginning."""


UNKNOWN = -1
"""A leader epoch that nobody has told."""

_FAR = 1 << 62


class PartitionState:
    """One partition of an assignment."""

    __slots__ = (
        "bad",
        "checked_epoch",
        "chunks",
        "doubted",
        "epoch",
        "fetch_offset",
        "fetch_stop",
        "fetched_epoch",
        "high_watermark",
        "messages",
        "messages_end",
        "partition",
        "paused",
        "position",
        "preferred",
        "reading",
        "rest",
        "settled",
        "sought",
        "stopped",
        "topic_id",
    )

    def __init__(self, partition: TopicPartition, epoch: int) -> None:
        self.partition = partition
        self.sought: int | None = COMMITTED  # a time, until an offset is found for it
        self.topic_id: UUID | None = None  # of which the offsets are, as soon as one was fetched
        self.fetch_offset = -1
        self.fetched_epoch = UNKNOWN
        self.checked_epoch = (
            UNKNOWN  # of the leader whose log has been found to hold what was fetched before
        )
        self.doubted: tuple[int, int] | None = (
            None  # who said, in which epoch, that there is no such offset
        )
        self.preferred: tuple[int, float] | None = (
            None  # a nearer replica, and until when (KIP-392)
        )
        self.fetch_stop = _FAR  # nothing is fetched from here on
        self.position = -1
        self.settled = -1
        self.high_watermark = -1
        self.epoch = epoch
        self.paused = False
        self.stopped = False  # something is wrong with this place: until it is sought elsewhere
        self.chunks: deque[tuple[Chunk, int]] = deque()
        # The chunk that is being handed out, decoded.
        self.messages: Iterator[Message] | None = None
        self.messages_end = -1
        self.reading = (-1, UNKNOWN)  # where that chunk begins, and its leader epoch
        # What follows these in the chunk but could not be read yet, from a place in a list on; its first is why.
        self.rest: tuple[list[Message], int] | None = None
        self.bad: Exception | None = None

    @property
    def has_something(self) -> bool:
        """Whether there is anything to hand out."""
        return self.messages is not None or bool(self.chunks) or self.rest is not None

    def used_up(self) -> None:
        """All messages of the current chunk were handed out; its end may lie after the last of them."""
        self.messages = None
        if self.rest is None:
            self.position = max(self.position, self.messages_end)


class Call:
    """Something that must be done in the reader's thread, and an answer to whoever waits for it."""

    __slots__ = ("action", "done")

    def __init__(self, action: Callable[[], Any], done: Callable[[], None]) -> None:
        self.action = action
        self.done = done


class Assignment:
    """All partitions of one consumer."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        """Tells the fetcher to look again; may be called from any thread."""
        self.announce: Callable[[], None] = self.notify_threads
        """Tells readers to look again."""
        self.lock = threading.Lock()
        self.ready = threading.Condition(self.lock)
        self.states: dict[TopicPartition, PartitionState] = {}
        self._order: list[PartitionState] = []
        self.buffered_bytes = 0
        # No epoch comes twice, not even for a partition that went and came back: what is still on its way for the time
        # before must not be taken for the new one's.
        self._epochs = itertools.count()
        self.version = 0
        self.signals = 0
        """Grows with everything that a waiting reader wants to know."""
        self.calls: deque[Call] = deque()
        self._errors: dict[TopicPartition | None, TidelogError] = {}
        self._troubles: dict[TopicPartition | str, TidelogError] = {}
        """What is wrong and stays wrong, by partition or by what it is about."""
        self.closed = False

    # For the reader.

    def next_state(self, mine: Callable[[TopicPartition], bool] | None) -> PartitionState | None:
        """A partition that has something to hand out, each in turn; `mine` says which are this reader's."""
        with self.lock:
            for place, state in enumerate(self._order):
                if state.paused or not state.has_something:
                    continue
                if mine is None or mine(state.partition):
                    self._order.append(self._order.pop(place))
                    return state
        return None

    def next_chunk(self, state: PartitionState, only: Chunk | None = None) -> Chunk | None:
        """Take the next chunk of this partition, if it is the only one that is wanted, and make room for another."""
        with self.lock:
            if not state.chunks or (only is not None and state.chunks[0][0] is not only):
                return None
            chunk, end = state.chunks.popleft()
            state.messages_end = end
            state.reading = chunk.fetch_offset, chunk.leader_epoch
            self.buffered_bytes -= len(chunk.records)
        self._changed()
        return chunk

    def put_back(self, state: PartitionState, epoch: int, chunk: Chunk) -> None:
        """The reader has enough: the chunk that it took last, from where it stopped, is for the next call."""
        with self.lock:
            if state.epoch == epoch:
                state.chunks.appendleft((chunk, state.messages_end))
                state.position = chunk.fetch_offset
                self.buffered_bytes += len(chunk.records)

    def ask_reader(self, call: Call) -> None:
        """Have something done in the reader's thread."""
        with self.lock:
            self.calls.append(call)
            self._course_changed()
        self.announce()

    def fail(self, error: TidelogError, tp: TopicPartition | None = None) -> None:
        """Have the reader raise this; if it is about a partition, that is not read until it is sought elsewhere."""
        with self.lock:
            self._errors[tp] = error
            if tp is not None:
                self._troubles[tp] = error
                if tp in self.states:
                    self.states[tp].stopped = True
            self._course_changed()
        self.announce()

    def check(self) -> None:
        """Raise what went wrong in the background, once."""
        with self.lock:
            if not self._errors:
                return
            error = self._errors.pop(next(iter(self._errors)))
        raise error

    def trouble(self, about: str, error: TidelogError) -> None:
        """Something cannot be done, and is tried again: have it raised when a reader has waited in vain."""
        with self.lock:
            self._troubles[about] = error

    def trouble_is_over(self, about: str) -> None:
        if about in self._troubles:
            with self.lock:
                self._troubles.pop(about, None)

    def complain(self) -> None:
        """Raise what has been wrong all the time, to a reader who has waited in vain."""
        with self.lock:
            if not self._troubles:
                return
            error = next(iter(self._troubles.values()))
        raise error.with_traceback(None)

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self._course_changed()
        self.announce()

    # What is assigned.

    def replace(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions; those that were read before keep their place."""
        with self.lock:
            for tp in [tp for tp in self.states if tp not in partitions]:
                self._drop(self.states.pop(tp))
            for tp in partitions:
                if tp not in self.states:
                    self.states[tp] = PartitionState(tp, next(self._epochs))
            self._order = list(self.states.values())
            self._course_changed()
        self._changed()
        self.announce()

    def seek(
        self, tp: TopicPartition, *, offset: int | None = None, time: int | None = None
    ) -> None:
        """Go on at an offset, or at the first offset of a time."""
        with self.lock:
            state = self.state(tp)
            self._drop(state)
            state.sought = time
            if offset is not None:
                state.sought = None
                state.fetch_offset = state.position = state.settled = offset
            self._course_changed()
        self._changed()

    def place(
        self, state: PartitionState, epoch: int, offset: int, leader_epoch: int = UNKNOWN
    ) -> None:
        """The offset that was sought is found, unless something else is sought by now."""
        with self.lock:
            if state.epoch == epoch:
                state.sought = None
                state.fetch_offset = state.position = state.settled = offset
                state.fetched_epoch = leader_epoch

    def go_back(self, state: PartitionState, epoch: int, offset: int, leader_epoch: int) -> None:
        """The log was cut here: go on with what is there now, unless something else is sought by now."""
        with self.lock:
            if state.epoch == epoch:
                self._drop(state)
                state.fetch_offset = state.position = state.settled = offset
                state.fetched_epoch = leader_epoch
                self._course_changed()
        self.announce()

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        """Hand out nothing of these partitions, or go on with them."""
        with self.lock:
            for tp in partitions:
                self.state(tp).paused = paused
            self._course_changed()
        self._changed()
        self.announce()

    def state(self, tp: TopicPartition) -> PartitionState:
        """The state of a partition; an error that names it if it is not assigned."""
        if tp not in self.states:
            raise TidelogError(f"{tp} is not assigned to this consumer")
        return self.states[tp]

    def positions(self, *, settled: bool = False) -> dict[TopicPartition, int]:
        """Where the reader stands, or up to where it is done, in each partition that has been placed."""
        with self.lock:
            found = {
                tp: state.settled if settled else state.position
                for tp, state in self.states.items()
            }
        return {tp: offset for tp, offset in found.items() if offset >= 0}

    def commitable(self, *, settled: bool = False) -> dict[TopicPartition, CommittedOffset]:
        """The same as it is committed, with the leader epoch of the record before it where that is known."""
        with self.lock:
            found = {
                tp: (state.settled if settled else state.position, state.reading)
                for tp, state in self.states.items()
            }
        return {
            tp: CommittedOffset(offset, "", epoch if offset > start else UNKNOWN)
            for tp, (offset, (start, epoch)) in found.items()
            if offset >= 0
        }

    # For the fetcher.

    def unplaced(self) -> list[tuple[PartitionState, int, int]]:
        """Partitions whose offset must be found, the time that is sought, and their epochs."""
        with self.lock:
            return [
                (state, state.sought, state.epoch)
                for state in self.states.values()
                if state.sought is not None and not state.stopped
            ]

    def fetchable(self, limit_bytes: int) -> dict[TopicPartition, tuple[int, int]]:
        """Offset and epoch of each partition of which more should be fetched."""
        with self.lock:
            if self.buffered_bytes >= limit_bytes:
                return {}
            share = max(limit_bytes // max(len(self.states), 1), 1)
            return {
                state.partition: (state.fetch_offset, state.epoch)
                for state in self._order
                if state.sought is None
                and not state.paused
                and not state.stopped
                and state.fetch_offset < state.fetch_stop
                and sum(len(chunk.records) for chunk, _ in state.chunks) < share
            }

    def put(self, chunk: Chunk, epoch: int, end: int, last_epoch: int = UNKNOWN) -> None:
        """Something was fetched; `end` is the offset after it, `last_epoch` the leader epoch of its last batch."""
        with self.lock:
            state = self.states.get(chunk.partition)
            # Invariant: chunks follow one another without a gap.  The offset tells two fetches of one place apart, as
            # when the leader has changed while the first was on its way.
            if (
                state is None
                or state.epoch != epoch
                or state.sought is not None
                or state.fetch_offset != chunk.fetch_offset
            ):
                return
            state.high_watermark = chunk.high_watermark
            if end <= chunk.fetch_offset:
                return
            state.chunks.append((chunk, end))
            state.fetch_offset = end
            state.fetched_epoch = last_epoch
            self.buffered_bytes += len(chunk.records)
            self.signals += 1
        self.announce()

    def lag(self) -> Mapping[TopicPartition, int]:
        """How many offsets lie between the reader and the end of each partition, as last heard."""
        with self.lock:
            return {
                tp: max(0, state.high_watermark - state.position)
                for tp, state in self.states.items()
                if state.high_watermark >= 0 and state.position >= 0
            }

    def _course_changed(self) -> None:
        self.version += 1
        self.signals += 1

    def _drop(self, state: PartitionState) -> None:
        state.epoch = next(self._epochs)
        state.stopped = False
        state.topic_id = state.doubted = None
        state.fetched_epoch = state.checked_epoch = UNKNOWN
        state.reading = (-1, UNKNOWN)
        self._errors.pop(state.partition, None)
        self._troubles.pop(state.partition, None)
        self.buffered_bytes -= sum(len(chunk.records) for chunk, _ in state.chunks)
        state.chunks.clear()
        state.messages = state.rest = state.bad = None
        state.fetch_offset = state.position = state.settled = -1

    def notify_threads(self) -> None:
        """Wake readers that wait for `ready`."""
        with self.ready:
            self.ready.notify_all()
