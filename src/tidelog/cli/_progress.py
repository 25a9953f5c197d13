"""How far long work has come: a bar on a terminal, nothing elsewhere."""

import sys
import time
from typing import Self, TextIO

_EVERY_S = 0.1
_WIDTH = 30
_CLEAR = "\r\x1b[K"


class Progress:
    """A bar of `total` steps, none if that is 0, for nobody knows; it goes away when the work is over."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._total = total
        self._stream = stream or sys.stderr
        self._shown = total > 0 and self._stream.isatty()
        self._next_at = 0.0

    def update(self, done: int, note: str = "") -> None:
        """So much is done; drawn only now and then, so call it as often as you like."""
        if not self._shown or (now := time.monotonic()) < self._next_at:
            return
        self._next_at = now + _EVERY_S
        share = min(done / self._total, 1.0)
        full = int(share * _WIDTH)
        self._stream.write(f"\r[{'#' * full}{' ' * (_WIDTH - full)}] {share:4.0%} {note}\x1b[K")
        self._stream.flush()

    def hide(self) -> None:
        """Make room for what is about to be printed; the next update draws it again."""
        if self._shown and self._next_at:
            self._stream.write(_CLEAR)
            self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()
