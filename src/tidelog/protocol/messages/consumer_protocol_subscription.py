"""ConsumerProtocolSubscription: what a classic consumer subscribes to.

Carried in the member metadata of JoinGroup, after a version number of two bytes.  Versions: 1 adds the partitions
a member owns (KIP-429); 2 its generation (KIP-792); 3 its rack (KIP-881).
"""

from ..schema import Message, Struct, field, int32, octets, string


class TopicPartition(Struct):
    topic: string = field("1+", default="")
    partitions: list[int32] = field("1+", factory=list)


class ConsumerProtocolSubscription(Message, versions="0-3", flexible="none"):
    topics: list[string] = field(factory=list)
    user_data: octets | None = None
    owned_partitions: list[TopicPartition] = field("1+", factory=list)
    generation_id: int32 = field("2+", default=-1)
    rack_id: string | None = field("3+", default=None)
