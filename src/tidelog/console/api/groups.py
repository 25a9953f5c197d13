"""Consumer groups: who reads what, how far behind, and moving them."""

import asyncio
from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from tidelog.client.group_moves import Move, move_targets
from tidelog.console.api.asking import (
    INT32,
    INT64,
    Asks,
    Confirmed,
    GroupName,
    MayWrite,
    confirm,
    router,
)
from tidelog.console.errors import ConsoleError, bad_request, not_found
from tidelog.console.groups import GroupView, find_group, view_group
from tidelog.console.reading import find_partitions, parse_moment
from tidelog.dataclass import dataclass
from tidelog.names import TopicPartition

ROUTER = router("groups")

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class GroupRow:
    group: str
    state: str
    type: str
    members: int | None
    lag: int | None
    """Null before this console has looked."""
    trend: list[int]


class Reset(BaseModel):
    """Where a group shall go on; with `dry_run` nothing is changed."""

    to: Literal["start", "end", "offset", "time", "shift"]
    offset: Annotated[int | None, Field(ge=0, le=INT64)] = None
    time: Annotated[str | None, Field(max_length=100)] = None
    """`10m` (ago), `2026-01-31T12:00`, or milliseconds since 1970."""
    shift: Annotated[int | None, Field(ge=-INT64, le=INT64)] = None
    topic: Annotated[str | None, Field(max_length=249)] = None
    """Only this one; without it all that the group has offsets of."""
    partitions: Annotated[list[Annotated[int, Field(ge=0, le=INT32)]], Field(max_length=10_000)] = (
        Field(default_factory=list)
    )
    """Only these of the topic; none means all."""
    dry_run: bool = True


@dataclass(frozen=True, slots=True)
class MovedPartition:
    topic: str
    partition: int
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class Moved:
    group: str
    dry_run: bool
    partitions: list[MovedPartition]


@dataclass(frozen=True, slots=True)
class GroupNamed:
    group: str


@ROUTER.get("/groups")
async def list_groups(
    clients: Asks, limit: Annotated[int, Query(ge=1, le=1000)] = 200
) -> list[GroupRow]:
    """Groups by name."""
    listed = (await clients.admin.list_groups())[:limit]
    turns = asyncio.Semaphore(_AT_ONCE)

    async def row(group: str, state: str, kind: str) -> GroupRow:
        async with turns:
            found = await find_group(clients.admin, group)
        trend = [lag for _, lag in clients.sampler.lag_trend(group)]
        members = 0 if found is None else len(found.members)
        return GroupRow(group, state, kind, members, trend[-1] if trend else None, trend)

    return list(
        await asyncio.gather(*(row(each.group_id, each.state, each.type) for each in listed))
    )


@ROUTER.get("/groups/{group}")
async def describe_group(group: GroupName, clients: Asks) -> GroupView:
    """One group: its members, and how far behind it is."""
    return await view_group(clients, group)


@ROUTER.post("/groups/{group}/reset", dependencies=[MayWrite])
async def reset_group(group: GroupName, body: Reset, clients: Asks) -> Moved:
    """Move a group that has no members, or with `dry_run` tell where it would go."""
    admin = clients.admin
    found = await find_group(admin, group)
    committed = {tp: each.offset for tp, each in (await admin.group_offsets(group)).items()}
    if found is None and not committed:
        raise not_found(f"there is no group {group!r}")
    targets = await move_targets(
        admin, await _chosen(clients, body, committed), committed, _move(body)
    )
    if not body.dry_run:
        if found is not None and found.members:
            count = len(found.members)
            raise ConsoleError(
                409,
                "non_empty_group",
                f"group {group!r} has {count} member{'s' if count > 1 else ''}; stop them first",
            )
        await admin.alter_group_offsets(group, targets)
    return Moved(
        group,
        body.dry_run,
        [
            MovedPartition(tp.topic, tp.partition, committed.get(tp), after)
            for tp, after in sorted(targets.items())
        ],
    )


@ROUTER.delete("/groups/{group}", dependencies=[MayWrite])
async def delete_group(group: GroupName, confirmed: Confirmed, clients: Asks) -> GroupNamed:
    """Delete a group that has no members, with its offsets."""
    confirm(group, confirmed)
    await clients.admin.delete_groups([group])
    return GroupNamed(group)


async def _chosen(
    clients: Asks, body: Reset, committed: dict[TopicPartition, int]
) -> list[TopicPartition]:
    if body.topic is None:
        if body.partitions:
            raise bad_request("partitions need a topic")
        if not committed:
            raise bad_request("the group has no offsets yet; name a topic")
        there = set(await clients.admin.list_topics(internal=True))
        return sorted(tp for tp in committed if tp.topic in there)
    places = await find_partitions(clients.admin, body.topic, None)
    chosen = [TopicPartition(body.topic, each) for each in body.partitions]
    for tp in chosen:
        if tp not in places:
            raise not_found(f"topic {body.topic!r} has no partition {tp.partition}")
    return chosen or places


def _move(body: Reset) -> Move:
    if body.to == "offset" and body.offset is not None:
        return Move(offset=body.offset)
    if body.to == "time" and body.time is not None:
        return Move(time_ms=parse_moment("time", body.time))
    if body.to == "shift" and body.shift is not None:
        return Move(shift_by=body.shift)
    if body.to in ("start", "end"):
        return Move(to_start=body.to == "start", to_end=body.to == "end")
    raise bad_request(f"to={body.to!r} needs {body.to} as well")
