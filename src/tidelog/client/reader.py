"""Takes messages out of an assignment, for one thread or task that reads.

A message that is handed out alone is done when the next is asked for; so each moves `settled` up to the one before it.
Of a batch all are done when the reader comes back for more.  At the end it depends on how that comes: see `end`.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable

from tidelog.client.assignment import Assignment, PartitionState
from tidelog.client.decoding import Unfolding
from tidelog.client.deserializing import Away
from tidelog.client.message import BadMessage, Message
from tidelog.names import TopicPartition

Mine = Callable[[TopicPartition], bool]


class Reader:
    """One reader's view of an assignment: all of it, or the partitions that `mine` says are its own."""

    def __init__(
        self,
        assignment: Assignment,
        decode: Callable[[PartitionState, Unfolding], bool],
        mine: Mine | None = None,
    ) -> None:
        self.assignment = assignment
        self._decode = decode
        self._mine = mine
        self.unfolding = Unfolding()
        self.touched: list[PartitionState] = []
        self.one_by_one = False
        """Whether the caller has one message in hand, or a batch."""
        self.owner: object = None
        """The thread or task that read last."""

    def belongs_to_another(self, closer: object) -> bool:
        """Whether somebody else reads, who may still be at work with what it has."""
        owner = self.owner
        if owner is None or owner is closer:
            return False
        return (
            owner.is_alive()
            if isinstance(owner, threading.Thread)
            else (isinstance(owner, asyncio.Task) and not owner.done())
        )

    def settle(self) -> None:
        """The caller is back: it is done with what it had."""
        for state in self.touched:
            state.settled = state.position
        self.touched.clear()

    def end(self, *, block_ended_well: bool, failed: bool) -> None:
        """The caller does not come back.

        It is done with what it had if it left its `with` block without an exception.  If it closed by hand it is done
        with a batch, unless an exception is under way, but not with a single message: that it would be by asking for the next.
        """
        if block_ended_well or not (failed or self.one_by_one):
            self.settle()
        self.touched.clear()

    def next_state(self, mine: Mine | None = None) -> PartitionState | None:
        """A partition whose `messages` can be iterated; raises `BadMessage` or `Away` when it is the turn of one that cannot."""
        while (state := self.assignment.next_state(mine or self._mine)) is not None:
            if state.messages is None:
                if state.bad is not None:
                    self._raise(state, state.bad)
                if not self._decode(state, self.unfolding) or state.messages is None:
                    continue
            self.touched.append(state)
            return state
        return None

    def take(self, wanted: int, mine: Mine | None = None) -> list[Message]:
        """Up to so many messages of what is there."""
        found: list[Message] = []
        try:
            self._take_into(found, wanted, mine)
        except Exception:
            if not found:
                raise  # else it is its turn with the next call
        except BaseException:
            self._give_back()
            raise
        self.one_by_one = False
        return found

    def take_one(self, mine: Mine | None = None) -> Message | None:
        """One message of what is there."""
        while (state := self.next_state(mine)) is not None:
            message = next(state.messages, None) if state.messages is not None else None
            if message is None:
                state.used_up()
                continue
            state.settled = message.offset
            state.position = message.offset + 1
            self.one_by_one = True
            return message
        return None

    def pass_by(self, error: BadMessage, replacement: Message | None) -> None:
        """A bad message is dealt with: go on behind it, or with what takes its place."""
        if replacement is not None and not isinstance(replacement, Message):
            raise TypeError(
                f"on_bad returned {type(replacement).__name__}; it must return a Message, or None to skip"
            )
        state = self.assignment.states.get(error.message.topic_partition)
        with self.assignment.lock:
            if state is None or state.bad is not error or state.rest is None:
                return  # it was sought elsewhere
            raw, at = state.rest
            state.rest, state.bad = (raw, at + 1), None
            if replacement is not None:
                topic, partition, offset = error.topic, error.partition, error.offset
                placed = replacement._replace(topic=topic, partition=partition, offset=offset)
                state.messages = iter([placed])
                return
            state.settled = error.offset
            state.position = error.offset + 1
            self.touched.append(state)
            self.one_by_one = True

    def _give_back(self) -> None:
        """Ctrl-C: what was taken since the reader came back is not handed out, and comes with the next call."""
        for state in self.touched:
            tp = state.partition
            if self.assignment.states.get(tp) is state and 0 <= state.settled < state.position:
                self.assignment.seek(tp, offset=state.settled)
        self.touched.clear()

    def _raise(self, state: PartitionState, bad: Exception) -> None:
        if isinstance(bad, Away):
            state.bad = None  # the next call tries again
        raise bad

    def _take_into(self, found: list[Message], wanted: int, mine: Mine | None) -> None:
        while len(found) < wanted and (state := self.next_state(mine)) is not None:
            messages = state.messages
            if messages is None:
                continue
            some = list(itertools.islice(messages, wanted - len(found)))
            if some:
                state.position = some[-1].offset + 1
                found += some
            if len(found) < wanted:
                state.used_up()
