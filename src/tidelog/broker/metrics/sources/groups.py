"""Consumer groups, told by the broker that coordinates them: how far they are behind, and whether retention overtakes them.

A scrape looks again after five seconds at the earliest, and at 20,000 partitions of groups at most.
"""

from collections import Counter
from collections.abc import Iterator

from tidelog.broker.metrics.families import Found, counter, gauge
from tidelog.broker.metrics.sight import Sight

_PLACE = ("consumergroup", "topic", "partition")

LAG = gauge(
    "kafka_consumergroup_lag",
    "Messages that a group has not read yet, by what it has committed.",
    *_PLACE,
    many=True,
)
LAG_SECONDS = gauge(
    "kafka_consumergroup_lag_seconds",
    "How long the first message that a group has not read has been waiting; 0 if it has read all.",
    *_PLACE,
    many=True,
)
CURRENT = gauge(
    "kafka_consumergroup_current_offset",
    "Offset that a group has committed.",
    *_PLACE,
    many=True,
)
OVERTAKEN = gauge(
    "tidelog_consumergroup_overtaken_in_seconds",
    "Data at risk: when retention deletes messages that the group has not read, if all goes on like this. Only where it does.",
    *_PLACE,
    many=True,
)
LOST = gauge(
    "tidelog_consumergroup_lost_messages",
    "Messages that were deleted before the group has read them. Only where there are some.",
    *_PLACE,
    many=True,
)
LEFT_OUT = gauge(
    "tidelog_consumergroup_left_out",
    "Partitions of groups that are too many to be looked at. Should be 0.",
)
MEMBERS = gauge("kafka_consumergroup_members", "Members of a group.", "consumergroup", many=True)
GROUPS = gauge(
    "kafka_coordinator_group_groupmetadatamanager_numgroups",
    "Groups that this broker coordinates, by their state.",
    "state",
)
OFFSETS = gauge(
    "kafka_coordinator_group_groupmetadatamanager_numoffsets",
    "Offsets that groups have committed here.",
)
REBALANCES = counter(
    "tidelog_group_rebalances_total", "Rebalances that began in groups of this broker."
)
TRANSACTIONS = gauge("tidelog_transactional_ids", "Transactional ids that this broker coordinates.")


def collect(sight: Sight) -> Iterator[Found]:
    found = sight.lags.found
    places = [((each.group, each.place[0], str(each.place[1])), each) for each in found]
    yield LAG.rows((labels, each.verdict.lag) for labels, each in places)
    yield LAG_SECONDS.rows(
        (labels, each.verdict.lag_seconds)
        for labels, each in places
        if each.verdict.lag_seconds is not None
    )
    yield CURRENT.rows((labels, each.committed) for labels, each in places)
    yield OVERTAKEN.rows(
        (labels, each.verdict.overtaken_in_seconds)
        for labels, each in places
        if each.verdict.overtaken_in_seconds is not None
    )
    yield LOST.rows((labels, each.verdict.lost) for labels, each in places if each.verdict.lost)
    yield LEFT_OUT.value(sight.lags.left_out)
    groups = sight.coordinators.made_groups
    standings = [] if groups is None else list(groups.standings())
    yield MEMBERS.rows(((name,), members) for name, _, members in standings)
    states = Counter(state for _, state, _ in standings)
    yield GROUPS.rows([((state,), count) for state, count in sorted(states.items())])
    yield OFFSETS.value(sight.lags.left_out + len(found))
    yield REBALANCES.value(0 if groups is None else groups.counts.rebalances)
    transactions = sight.coordinators.made_transactions
    yield TRANSACTIONS.value(0 if transactions is None else transactions.count)
