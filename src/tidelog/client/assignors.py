"""Who of a group gets which partition: pure functions of the members' subscriptions and the topics' sizes.

`range` is Algorithm 1 of the Kafka paper: for each topic the sorted partitions are cut into one run for each sorted
member, the first ones longer by one where it does not come out even.  `roundrobin` deals all partitions around.
`sticky` is as even as it can be and moves as little as it can; `cooperative-sticky` is the same, but in a first
round only takes away: what moves is given out when its owner has let go of it (KIP-429).

Absent: racks.
"""

from collections.abc import Callable, Mapping

from tidelog.client.group_protocol import Subscription
from tidelog.names import TopicPartition

Members = Mapping[str, Subscription]
Counts = Mapping[str, int]
Shares = dict[str, list[TopicPartition]]
Assignor = Callable[[Members, Counts], Shares]


def assign_range(members: Members, counts: Counts) -> Shares:
    """Algorithm 1: a run of each topic for each of its members."""
    shares: Shares = {member: [] for member in members}
    for topic, count in sorted(counts.items()):
        takers = _in_order(members, topic)
        if not takers:
            continue
        each, longer = divmod(count, len(takers))
        start = 0
        for place, member in enumerate(takers):
            end = start + each + (place < longer)
            shares[member] += [TopicPartition(topic, index) for index in range(start, end)]
            start = end
    return shares


def assign_round_robin(members: Members, counts: Counts) -> Shares:
    """All partitions in order, dealt around the members in order; who does not want a topic is passed over."""
    shares: Shares = {member: [] for member in members}
    ring = _in_order(members)
    place = 0
    for topic, count in sorted(counts.items()):
        if not any(topic in members[member].topics for member in ring):
            continue
        for index in range(count):
            while topic not in members[ring[place % len(ring)]].topics:
                place += 1
            shares[ring[place % len(ring)]].append(TopicPartition(topic, index))
            place += 1
    return shares


def assign_sticky(members: Members, counts: Counts) -> Shares:
    """As even as single moves can make it; everybody keeps what it has where that does not stand against it."""
    shares = _kept(members, counts)
    owned = {tp for share in shares.values() for tp in share}
    for topic, count in sorted(counts.items()):
        takers = _in_order(members, topic)
        for index in range(count):
            tp = TopicPartition(topic, index)
            if takers and tp not in owned:
                shares[min(takers, key=lambda member: len(shares[member]))].append(tp)
    _level(members, shares)
    return {member: sorted(share) for member, share in shares.items()}


def assign_cooperative_sticky(members: Members, counts: Counts) -> Shares:
    """As `assign_sticky`, without what another member still owns."""
    owners = {tp: member for member, share in _kept(members, counts).items() for tp in share}
    return {
        member: [tp for tp in share if owners.get(tp, member) == member]
        for member, share in assign_sticky(members, counts).items()
    }


ASSIGNORS: dict[str, Assignor] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    "sticky": assign_sticky,
    "cooperative-sticky": assign_cooperative_sticky,
}
"""By the name under which the members of a group agree on one."""


def _in_order(members: Members, topic: str | None = None) -> list[str]:
    """Members that want the topic; static ones by their instance id, so that a restart changes nothing."""
    wanting = [each for each in members if topic is None or topic in members[each].topics]

    def place(member: str) -> tuple[bool, str]:
        instance = members[member].instance_id
        return (instance is None, instance or member)

    return sorted(wanting, key=place)


def _kept(members: Members, counts: Counts) -> Shares:
    """What each member has, still wants and still exists; of two that claim it, the later generation has it."""
    claims: dict[TopicPartition, tuple[int, str]] = {}
    disputed: set[TopicPartition] = set()
    for member in _in_order(members):
        mine = members[member]
        for tp in mine.owned:
            if tp.partition >= counts.get(tp.topic, 0) or tp.topic not in mine.topics:
                continue
            generation, _ = claims.get(tp, (-2, ""))
            if mine.generation == generation:
                disputed.add(tp)  # neither can be believed
            elif mine.generation > generation:
                claims[tp] = (mine.generation, member)
                disputed.discard(tp)
    shares: Shares = {member: [] for member in members}
    for tp, (_, member) in sorted(claims.items()):
        if tp not in disputed:
            shares[member].append(tp)
    return shares


def _level(members: Members, shares: Shares) -> None:
    """Move single partitions from those with more to those with at least two fewer, until there is none such."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(shares, key=lambda member: -len(shares[member])):
            for tp in reversed(shares[giver]):
                takers = _in_order(members, tp.topic)
                taker = min(takers, key=lambda member: len(shares[member]))
                if len(shares[taker]) + 2 <= len(shares[giver]):
                    shares[giver].remove(tp)
                    shares[taker].append(tp)
                    moved = True
                    break
            if moved:
                break
