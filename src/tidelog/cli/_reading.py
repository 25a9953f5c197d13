"""Reading partitions from here to there, without a group."""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from tidelog.cli._options import for_any_client
from tidelog.errors import LeaderNotAvailable, SettingsError
from tidelog.names import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.blocking_consumer import Consumer

LATEST, EARLIEST = -1, -2

POLL_S = 0.25
POLL_RECORDS = 5_000

Ended = Callable[[bool], bool]
"""Whether all has been read that there was; it is told whether the last poll brought nothing."""


def partitions_of(
    config: Mapping[str, str], topics: Iterable[str], only: Iterable[int] | None
) -> list[TopicPartition]:
    """The partitions of the topics, or those of these numbers."""
    from tidelog.client.admin import Admin

    with Admin(for_any_client(config)) as admin:
        described = admin.describe_topics(topics)
    wanted = set(only or ())
    for each in wanted:
        for topic in described.values():
            if each not in range(len(topic.partitions)):
                last = len(topic.partitions) - 1
                raise SettingsError(f"--partition {each}: topic {topic.name} has 0 to {last}")
    found = [
        (TopicPartition(topic.name, part.partition), part.leader)
        for topic in described.values()
        for part in topic.partitions
        if not wanted or part.partition in wanted
    ]
    leaderless = [str(tp) for tp, leader in found if leader < 0]
    if leaderless and (wanted or len(leaderless) == len(found)):
        raise LeaderNotAvailable(f"{', '.join(leaderless)}: no leader at the moment")
    for name in leaderless:
        print(f"{name} has no leader; it is left out", file=sys.stderr)
    return [tp for tp, leader in found if leader >= 0]


def offsets_at(
    consumer: "Consumer", wanted: Iterable[TopicPartition], moment: int
) -> dict[TopicPartition, int]:
    """The offset of each partition at a time in ms; -1 where nothing is that young."""
    found = consumer.find_offsets(dict.fromkeys(wanted, moment))
    return {tp: each.offset for tp, each in found.items()}


def start_reading(
    consumer: "Consumer",
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Ended:
    """Go to the starts; the answer tells whether the ends have been reached."""
    # The offsets were asked for before: a fetch that is under way from another place would have to run out first.
    consumer.assign(starts)
    for tp, offset in starts.items():
        consumer.seek(tp.topic, tp.partition, offset)
    remaining = {tp for tp in starts if starts[tp] < ends[tp]}

    def ended(quiet: bool) -> bool:
        for tp in list(remaining):
            if consumer.position(*tp) >= ends[tp]:
                remaining.discard(tp)
        return not remaining

    return ended
