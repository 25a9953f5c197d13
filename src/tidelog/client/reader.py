"""Takes messages out of an assignment, for one thread or task that reads."""

import itertools
from collections.abc import Callable

from tidelog.client.assignment import Assignment, PartitionState
from tidelog.client.decoding import Unfolding
from tidelog.client.message import Message
from tidelog.names import TopicPartition


class Reader:
    """One reader's view of an assignment: all of it, or the partitions that `mine` says are its own."""

    def __init__(
        self,
        assignment: Assignment,
        decode: Callable[[PartitionState, Unfolding], bool],
        mine: Callable[[TopicPartition], bool] | None = None,
    ) -> None:
        self.assignment = assignment
        self._decode = decode
        self._mine = mine
        self.unfolding = Unfolding()
        self.touched: list[PartitionState] = []

    def settle(self) -> None:
        """The caller is back: it is done with what it had."""
        for state in self.touched:
            state.settled = state.position
        self.touched.clear()

    def next_state(self) -> PartitionState | None:
        """A partition whose `messages` can be iterated."""
        while (state := self.assignment.next_state(self._mine)) is not None:
            if state.messages is not None or self._decode(state, self.unfolding):
                self.touched.append(state)
                return state
        return None

    def take(self, wanted: int) -> list[Message]:
        """Up to so many messages of what is there."""
        found: list[Message] = []
        while len(found) < wanted and (state := self.next_state()) is not None:
            messages = state.messages
            if messages is None:
                continue
            some = list(itertools.islice(messages, wanted - len(found)))
            if some:
                state.position = some[-1].offset + 1
                found += some
            if len(found) < wanted:
                state.used_up()
        return found
