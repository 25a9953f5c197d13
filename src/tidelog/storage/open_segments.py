"""How many segments may hold a file descriptor at once, over all logs of a broker.

The oldest that was not used since it was last looked at gives its descriptor back (second chance), and opens again when
it is used.  A reader that still holds the file keeps it open for itself.
"""

from collections import OrderedDict
from typing import Protocol


class Closable(Protocol):
    """A segment, as far as this module is concerned."""

    recently_used: bool

    def let_go(self) -> None:
        """Give back the descriptor and the maps."""
        ...


class OpenSegments:
    """The segments that hold a descriptor, at most `limit` of them."""

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._queue: OrderedDict[Closable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._queue)

    def opened(self, segment: Closable) -> None:
        """A segment has opened its file; another may have to close its own."""
        while len(self._queue) >= self._limit:
            oldest, _ = self._queue.popitem(last=False)
            if oldest.recently_used and len(self._queue) > 1:
                oldest.recently_used = False
                self._queue[oldest] = None
            else:
                oldest.let_go()
        segment.recently_used = True
        self._queue[segment] = None

    def forget(self, segment: Closable) -> None:
        """The segment has closed by itself."""
        self._queue.pop(segment, None)
