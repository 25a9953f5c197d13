"""Several streams of one consumer, each for a thread of its own, as in the Kafka paper.

A partition belongs to one stream, so its order is kept; partitions are dealt out in order, so the streams are even to
one partition.  Which stream has which follows the assignment when that changes.
"""

from collections.abc import Callable, Iterator

from tidelog.client.assignment import Assignment
from tidelog.client.message import Message
from tidelog.names import TopicPartition


class Stream:
    """An iterator over messages that never ends by itself; it goes on after an error, as its consumer does."""

    def __init__(self, begin: Callable[[], Iterator[Message]]) -> None:
        self._begin = begin
        self._messages = begin()

    def __iter__(self) -> Iterator[Message]:
        # A generator that has raised is over; where it stood is known to the assignment.
        self._messages = self._begin()
        return self._messages

    def __next__(self) -> Message:
        try:
            return next(self._messages)
        except BaseException:
            self._messages = self._begin()
            raise


def share_of(assignment: Assignment, place: int, count: int) -> Callable[[TopicPartition], bool]:
    """Whether a partition belongs to the stream at this place."""

    # The rank is among what is assigned now: a consumer with half of the partitions still feeds all its streams.
    seen = -1
    share: set[TopicPartition] = set()

    def mine(tp: TopicPartition) -> bool:
        nonlocal seen, share
        if seen != assignment.version:
            seen = assignment.version
            share = set(sorted(assignment.states)[place::count])
        return tp in share

    return mine
