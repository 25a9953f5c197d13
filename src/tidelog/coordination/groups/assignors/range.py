"""Range: each topic is cut into as many runs as it has readers; the first readers get one partition more.

Members that read the same topics get the same partition numbers of each, so that topics with as many partitions
can be joined (the paper's Algorithm 1).  Static members are sorted by instance id, so a restart moves nothing.
"""

from collections.abc import Mapping
from typing import Any

from tidelog.coordination.groups.assignors.spec import Assignment, MemberSpec, Place


def assign_range(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[Any, int]
) -> dict[str, Assignment]:
    """Every partition of every topic to one of its readers."""
    made: dict[str, set[Place]] = {member_id: set() for member_id in members}
    order = sorted(
        members,
        key=lambda each: (members[each].instance_id is None, members[each].instance_id or each),
    )
    for topic_id, count in partition_counts.items():
        readers = [each for each in order if topic_id in members[each].topic_ids]
        if not readers:
            continue
        least, more = divmod(count, len(readers))
        start = 0
        for position, member_id in enumerate(readers):
            end = start + least + (position < more)
            made[member_id].update((topic_id, index) for index in range(start, end))
            start = end
    return {member_id: frozenset(places) for member_id, places in made.items()}
