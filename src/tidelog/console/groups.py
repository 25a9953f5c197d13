"""Groups for people: how far behind they are, in offsets and in time, and where a move would take them."""

import asyncio
import time
from collections.abc import Mapping

from tidelog.client.admin import AsyncAdmin
from tidelog.client.groups import GroupDescription
from tidelog.client.simple import AsyncSimpleConsumer
from tidelog.console.clients import Clients
from tidelog.console.errors import not_found
from tidelog.console.reading import offsets
from tidelog.console.sampler import is_led, partitions_of
from tidelog.dataclass import dataclass
from tidelog.errors import GroupIdNotFound, KafkaError
from tidelog.names import TopicPartition

_LATEST, _EARLIEST = -1, -2
_DEAD = "Dead"
_TIMED = 100
"""Of so many partitions the age of the first unread message is looked up."""
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class MemberView:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[str]


@dataclass(frozen=True, slots=True)
class GroupPartition:
    topic: str
    partition: int
    offset: int | None
    """What the group has committed; null where it has not."""
    end: int | None
    lag: int | None
    lag_seconds: float | None
    """How long the first unread message has waited."""
    lost: int
    """Messages that retention took before the group has read them."""
    member_id: str | None


@dataclass(frozen=True, slots=True)
class GroupView:
    group: str
    state: str
    type: str
    assignor: str | None
    members: list[MemberView]
    partitions: list[GroupPartition]
    lag: int
    lag_seconds: float | None
    trend: list[tuple[float, int]]
    """Time and lag, over the last quarter of an hour."""


async def view_group(clients: Clients, group: str) -> GroupView:
    """One group; 404 if there is none."""
    admin = clients.admin
    found = await find_group(admin, group)
    committed = {tp: each.offset for tp, each in (await admin.group_offsets(group)).items()}
    if found is None and not committed:
        raise not_found(f"there is no group {group!r}")
    members = () if found is None else found.members
    owners = {tp: member for member in members for tp in member.assignment}
    places = await _known(admin, sorted({*committed, *owners}))
    begins = await offsets(admin, places, _EARLIEST)
    ends = await offsets(admin, places, _LATEST)
    behind = {tp: committed[tp] for tp in places if tp in committed and committed[tp] < ends[tp]}
    ages = await _ages(clients.simple, behind)
    partitions = []
    for tp in sorted({*committed, *owners}):
        offset, end = committed.get(tp), ends.get(tp)
        known = offset is not None and end is not None
        lag = max(0, end - offset) if known else None  # type: ignore[operator]
        partitions.append(
            GroupPartition(
                tp.topic,
                tp.partition,
                offset,
                end,
                lag,
                0.0 if lag == 0 else ages.get(tp),
                max(0, begins[tp] - offset) if offset is not None and tp in begins else 0,
                owners[tp].member_id if tp in owners else None,
            )
        )
    seconds = [each.lag_seconds for each in partitions if each.lag_seconds is not None]
    return GroupView(
        group,
        "Empty" if found is None else found.state,
        "classic" if found is None else found.type,
        None if found is None else found.assignor or None,
        [
            MemberView(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.host,
                [str(tp) for tp in each.assignment],
            )
            for each in members
        ],
        partitions,
        sum(each.lag or 0 for each in partitions),
        max(seconds, default=None),
        clients.sampler.lag_trend(group),
    )


async def find_group(admin: AsyncAdmin, group: str) -> GroupDescription | None:
    """The group, None where there is none: offsets may be left of it."""
    try:
        found = (await admin.describe_groups([group]))[group]
    except GroupIdNotFound:
        return None
    return None if found.state == _DEAD else found


async def _known(admin: AsyncAdmin, wanted: list[TopicPartition]) -> list[TopicPartition]:
    """Those whose ends can be asked for: a topic may be gone, and its offsets still there."""
    there = set(await admin.list_topics(internal=True))
    names = {tp.topic for tp in wanted} & there
    topics = (await admin.describe_topics(names)).values() if names else ()
    led = set(partitions_of(each for each in topics if is_led(each)))
    return [tp for tp in wanted if tp in led]


async def _ages(
    reader: AsyncSimpleConsumer, behind: Mapping[TopicPartition, int]
) -> dict[TopicPartition, float]:
    """Seconds that the message at each offset has waited; nothing where it is gone."""
    now = time.time()
    turns = asyncio.Semaphore(_AT_ONCE)
    ages: dict[TopicPartition, float] = {}

    async def look(tp: TopicPartition, offset: int) -> None:
        async with turns:
            try:
                found = await reader.fetch(*tp, offset, max_bytes=1)
            except KafkaError:
                return  # retention has passed the group by, or it may not be read
        if found:
            ages[tp] = round(max(0.0, now - found[0].timestamp / 1000), 1)

    await asyncio.gather(*(look(*each) for each in list(behind.items())[:_TIMED]))
    return ages
