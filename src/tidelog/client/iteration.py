"""Iteration on the caller's own loop, message by message.

An object and no generator: it goes on after a `break`, an exception or a cancelled `anext`, for there is nothing of its own
to lose.  What was fetched stays in the assignment until it is handed out.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Self

from tidelog.client.assignment import Assignment, PartitionState
from tidelog.client.message import Message
from tidelog.client.reader import Reader


class Messages(AsyncIterator[Message]):
    """Messages without end; it ends only when the consumer is closed."""

    def __init__(
        self,
        assignment: Assignment,
        reader: Reader,
        look: Callable[[], Awaitable[PartitionState | None]],
    ) -> None:
        self._assignment = assignment
        self._reader = reader
        self._look = look
        """Waits for a partition that has messages."""
        # Where we are, as long as nothing has changed.
        self._state: PartitionState | None = None
        self._messages: Iterator[Message] | None = None
        self._version = -1

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        state, messages = self._state, self._messages
        while True:
            if (
                state is not None
                and messages is not None
                and state.messages is messages
                and self._version == self._assignment.version
            ):
                for message in messages:
                    # Invariant: settled <= position.  It is done when the next one is asked for, so all before it are.
                    state.settled = message.offset
                    state.position = message.offset + 1
                    return message
                state.used_up()
                await asyncio.sleep(0)  # others on this loop have their turn, at the latest now
            if self._assignment.closed:
                raise StopAsyncIteration
            state = self._state = await self._look()
            self._version = self._assignment.version
            self._reader.one_by_one = True
            messages = self._messages = None if state is None else state.messages
