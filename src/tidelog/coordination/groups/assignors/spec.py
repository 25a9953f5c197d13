"""What an assignor is given."""

from typing import Any, NamedTuple
from uuid import UUID

Place = tuple[UUID, int]
"""Topic id and partition."""

Assignment = frozenset[Place]


class MemberSpec(NamedTuple):
    """A member, as an assignor sees it."""

    instance_id: str | None
    topic_ids: frozenset[Any]
    """Topics that it reads."""
    target: Assignment
    """What it was to own before, so that little moves."""
