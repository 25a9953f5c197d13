"""An object that is made when it is first used, because making it (its imports, above all) takes long.

groups = cast(GroupCoordinator, Late(make))     # `groups.join_group(…)` makes it
"""

from collections.abc import Callable
from typing import Any


class Late:
    """Stands for what `make` returns."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make
        self._made: object | None = None

    @property
    def is_made(self) -> bool:
        return self._made is not None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = self._make()
        return getattr(self._made, name)
