"""An error for any request, in any version: it can be encoded, and it is told."""

import pytest

from tidelog.broker.dispatch import Handlers
from tidelog.errors import (
    CoordinatorNotAvailable,
    NotLeaderOrFollower,
    ProtocolError,
    TopicAuthorizationFailed,
)
from tidelog.protocol.error_answers import error_answer, tells
from tidelog.protocol.frame import decode_response, encode_response
from tidelog.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.protocol.schema import element_of, struct_of, wire_of

HANDLERS = list(Handlers())


def instance(cls, version):
    """A request whose lists have two items each."""
    values = {}
    for name, field in cls.__fields__.items():
        if version not in field.versions:
            continue
        element = element_of(field.hint)
        if element is None:
            values[name] = field.make_default()
            if wire_of(field.hint) and wire_of(field.hint).name == "string" and not values[name]:
                values[name] = name
        elif struct_of(element):
            values[name] = [instance(struct_of(element), version) for _ in range(2)]
        else:
            kind = wire_of(element).name
            values[name] = [f"{name}-{n}" if kind == "string" else n for n in range(2)]
            if kind == "uuid":
                values[name] = []
    return cls(**values)


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda each: each.name)
def test_every_api_can_tell_of_an_error(handler):
    for version in range(handler.versions.first, handler.versions.last + 1):
        request = instance(handler.request, version)
        if handler.request is DescribeLogDirsRequest and version < 3:
            with pytest.raises(ProtocolError, match="cannot tell"):  # as Kafka's own
                error_answer(request, version, CoordinatorNotAvailable())
            continue
        answer = error_answer(request, version, CoordinatorNotAvailable("not now"))
        frame = encode_response(answer, version, 7)
        _, read = decode_response(handler.request.response, frame[4:], version)
        assert tells(read, CoordinatorNotAvailable.code), (version, read)


def test_each_partition_is_told_where_it_was_asked_for():
    request = FetchRequest(
        topics=[
            FetchTopic(topic="a", partitions=[FetchPartition(partition=p) for p in (3, 5)]),
            FetchTopic(topic="b", partitions=[FetchPartition(partition=0)]),
        ]
    )
    answer = error_answer(request, 12, NotLeaderOrFollower())
    told = [
        (topic.topic, each.partition_index, each.error_code)
        for topic in answer.responses
        for each in topic.partitions
    ]
    assert told == [("a", 3, 6), ("a", 5, 6), ("b", 0, 6)]
    assert answer.error_code == 0, "the top of a fetch is about its session"


def test_the_outermost_level_tells_and_the_rest_stays_empty():
    topics = [OffsetFetchRequestTopics(name="a", partition_indexes=[0, 1])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    answer = error_answer(request, 8, CoordinatorNotAvailable())
    (group,) = answer.groups
    assert (group.group_id, group.error_code, group.topics) == ("g", 15, [])


def test_bare_names_are_told_back():
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g1", "g2"])
    answer = error_answer(request, 4, TopicAuthorizationFailed("no"))
    assert [(each.key, each.error_code, each.error_message) for each in answer.coordinators] == [
        ("g1", 29, "no"),
        ("g2", 29, "no"),
    ]
    assert [each.node_id for each in answer.coordinators] == [0, 0]
