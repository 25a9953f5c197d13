"""What `since` and `until` mean, and the offsets that they come to.

A bound is one of

    None                  the beginning, or the end as it is now
    "10m", "2h", "3d"     so long ago; a timedelta says the same
    "2026-01-31T12:00"    a time, local without a zone; a datetime says the same
    1769860800000         milliseconds since 1970
    "offset:500"          the same offset in each partition
    {0: 500, 1: 700}      an offset for each partition; those that are not named have no bound

`since` is included, `until` is not.  A time is turned into offsets by the brokers: the first record of that time or later.
Where producers set times out of order, an earlier time may follow in the log: of those the ones before `since` are left out,
and the ones before `until` that come after the first record of `until` are not found.
"""

import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from tidelog.client.arrow import Bounds
from tidelog.client.cluster import Cluster, UnknownTopic
from tidelog.client.offsets import EARLIEST, LATEST, find_offsets
from tidelog.client.times import time_of
from tidelog.errors import SettingsError
from tidelog.names import TopicPartition

Bound = str | int | float | datetime | timedelta | Mapping[int, int] | None

_OFFSET = "offset:"
_FAR = 1 << 62
_YEAR_1973_MS = 100_000_000_000
"""A number below this is hardly meant as a time."""


async def plan(
    cluster: Cluster,
    topic: str,
    *,
    since: Bound,
    until: Bound,
    partitions: Iterable[int] | int | None,
    isolation: int,
) -> dict[TopicPartition, Bounds]:
    """The bounds of each partition that has something to read, from what its leader knows now."""
    now_ms = int(time.time() * 1000)
    start, stop = _parse("since", since, now_ms), _parse("until", until, now_ms)
    wanted = await _partitions(cluster, topic, partitions)
    for name, bound in (("since", start), ("until", stop)):
        if isinstance(bound, dict):
            _check_named(name, topic, bound, wanted)
    begins = await _offsets(cluster, dict.fromkeys(wanted, EARLIEST), isolation)
    ends = await _offsets(cluster, dict.fromkeys(wanted, LATEST), isolation)
    firsts, oldest = await _resolve(cluster, wanted, start, begins, ends, isolation)
    lasts, newest = await _resolve(cluster, wanted, stop, ends, ends, isolation)
    found: dict[TopicPartition, Bounds] = {}
    for tp in wanted:
        first, last = max(firsts[tp], begins[tp]), min(lasts[tp], ends[tp])
        if first < last:
            found[tp] = Bounds(
                first,
                last,
                -_FAR if oldest is None else oldest,
                _FAR if newest is None else newest,
            )
    return found


def _parse(name: str, bound: Bound, now_ms: int) -> int | dict[int, int] | str | None:
    """A time in ms, offsets by partition, the text "offset:N", or None."""
    if bound is None:
        return None
    if isinstance(bound, Mapping):
        return dict(bound)
    if isinstance(bound, str) and bound.startswith(_OFFSET):
        if not bound.removeprefix(_OFFSET).isdigit():
            raise SettingsError(f"{name}={bound!r} must have a number, as in offset:500")
        return bound
    try:
        moment = time_of(bound, now_ms)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from None
    if not isinstance(bound, str) and 0 <= moment < _YEAR_1973_MS:
        raise SettingsError(
            f"{name}={bound!r} would be {moment} ms after 1970; an offset is written 'offset:{moment}' or "
            f"{{partition: {moment}}}"
        )
    return moment


async def _partitions(
    cluster: Cluster, topic: str, chosen: Iterable[int] | int | None
) -> list[TopicPartition]:
    info = await cluster.topic(topic)
    if chosen is None:
        return [TopicPartition(topic, index) for index in info.partitions]
    numbers = [chosen] if isinstance(chosen, int) else list(dict.fromkeys(chosen))
    for index in numbers:
        if index not in info.partitions:
            raise UnknownTopic(
                f"topic {topic!r} has partitions 0 to {len(info.partitions) - 1}, not {index}"
            )
    return [TopicPartition(topic, index) for index in numbers]


def _check_named(
    name: str, topic: str, bound: Mapping[int, int], wanted: list[TopicPartition]
) -> None:
    for index, offset in bound.items():
        if TopicPartition(topic, index) not in wanted:
            raise SettingsError(
                f"{name} has an offset for partition {index} of {topic!r}, which is not read"
            )
        if offset < 0:
            raise SettingsError(f"{name}: there is no offset {offset} in partition {index}")


async def _resolve(
    cluster: Cluster,
    wanted: list[TopicPartition],
    bound: int | dict[int, int] | str | None,
    absent: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    isolation: int,
) -> tuple[dict[TopicPartition, int], int | None]:
    """The offset of each partition, and the time by which records are chosen too."""
    if bound is None:
        return dict(absent), None
    if isinstance(bound, dict):
        return {tp: bound.get(tp.partition, absent[tp]) for tp in wanted}, None
    if isinstance(bound, str):
        return dict.fromkeys(wanted, int(bound.removeprefix(_OFFSET))), None
    found = await _offsets(cluster, dict.fromkeys(wanted, bound), isolation)
    # Where nothing is that young the answer is -1.
    return {tp: offset if offset >= 0 else ends[tp] for tp, offset in found.items()}, bound


async def _offsets(
    cluster: Cluster, times: Mapping[TopicPartition, int], isolation: int
) -> dict[TopicPartition, int]:
    return {tp: each.offset for tp, each in (await find_offsets(cluster, times, isolation)).items()}
