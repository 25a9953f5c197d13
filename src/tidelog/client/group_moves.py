"""Where a group's offsets come to when it is moved: nothing is written here."""

from collections.abc import Iterable, Mapping

from tidelog.client.admin import AsyncAdmin
from tidelog.client.offsets import EARLIEST, LATEST
from tidelog.dataclass import dataclass
from tidelog.names import TopicPartition


@dataclass(frozen=True, slots=True)
class Move:
    """Where to; exactly one is given."""

    to_start: bool = False
    to_end: bool = False
    offset: int | None = None
    time_ms: int | None = None
    shift_by: int | None = None


async def move_targets(
    admin: AsyncAdmin,
    wanted: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, int],
    move: Move,
) -> dict[TopicPartition, int]:
    """The offset at which each partition shall go on, within what there is; a shift leaves out what has no offset yet."""
    places = list(wanted)
    begins = await _offsets(admin, places, EARLIEST)
    ends = await _offsets(admin, places, LATEST)
    if move.to_start:
        return begins
    if move.to_end:
        return ends
    if move.time_ms is not None:
        found = await _offsets(admin, places, move.time_ms)
        return {tp: found[tp] if found[tp] >= 0 else ends[tp] for tp in places}
    if move.shift_by is not None:
        goals = {tp: committed[tp] + move.shift_by for tp in places if tp in committed}
    else:
        goals = dict.fromkeys(places, move.offset or 0)
    return {tp: min(max(goal, begins[tp]), ends[tp]) for tp, goal in goals.items()}


async def _offsets(
    admin: AsyncAdmin, places: Iterable[TopicPartition], moment: int
) -> dict[TopicPartition, int]:
    found = await admin.list_offsets(dict.fromkeys(places, moment))
    return {tp: each.offset for tp, each in found.items()}
