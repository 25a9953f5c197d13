"""Lets others have their turn while a handler goes over the items of a large request.

    turns = Turns()
    [_answer(each) async for topic in turns.over(request.topics) for each in topic.partitions]

One `Turns` counts over all the loops of a request, so that many short ones are as fair as one that is long.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Generic, Self, TypeVar

T = TypeVar("T")

_ITEMS_A_TURN = 200
"""Some milliseconds of work, where an item takes some microseconds."""


class Turns:
    """Of one request."""

    __slots__ = ("_items_a_turn", "_left")

    def __init__(self, items_a_turn: int = _ITEMS_A_TURN) -> None:
        """`items_a_turn` where an item takes much longer."""
        self._items_a_turn = self._left = items_a_turn

    def over(self, items: Iterable[T]) -> AsyncIterator[T]:
        """The items, one after the other; whoever waits for the loop gets it every so often."""
        return _Over(self, iter(items))

    async def count(self) -> None:
        """One more item."""
        self._left -= 1
        if self._left <= 0:
            self._left = self._items_a_turn
            await asyncio.sleep(0)


class _Over(Generic[T]):
    """An iterator and not a generator: what an error leaves half done needs no end of its own."""

    __slots__ = ("_items", "_turns")

    def __init__(self, turns: Turns, items: Iterator[T]) -> None:
        self._turns = turns
        self._items = items

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            item = next(self._items)
        except StopIteration:
            raise StopAsyncIteration from None
        await self._turns.count()
        return item
