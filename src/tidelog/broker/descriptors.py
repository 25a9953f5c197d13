"""Who may have the process's file descriptors: segments, connections, and a reserve for everything else.

A broker that runs out of them can neither write nor accept, so neither side may take what the other needs.
"""

from typing import NamedTuple

_RESERVE = 100
"""Listeners, checkpoints, metadata, indexes that are being read."""

_SEGMENTS_MAX = 4096
"""More would be opened again less often, which costs little."""


class Share(NamedTuple):
    """How many descriptors each side may hold."""

    segments: int
    connections: int


def share_of(limit: int) -> Share:
    """Divide `limit` descriptors."""
    free = max(limit - _RESERVE, 2)
    segments = min(free // 2, _SEGMENTS_MAX)
    return Share(segments, free - segments)
