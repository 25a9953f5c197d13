"""The vocabulary: versions, fields, defaults, and what a struct does."""

import copy
import pickle

import pytest

from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, ReplicaState
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.schema import Message, Struct, Versions, field, int16, int32, string


class Point(Struct):
    x: int32 = 0
    y: int32 = field("1+", default=-1)


class Shape(Message, versions="0-3", flexible="2+"):
    name: string | None = field(nullable="1+", default="")
    label: string | None = field("1+", default=None)
    points: list[Point] = field(factory=list)
    centre: Point = field("2+", tag=0, factory=Point)


@pytest.mark.parametrize(
    ("text", "first", "last"), [("3", 3, 3), ("0-14", 0, 14), ("9+", 9, 32767), ("none", 1, 0)]
)
def test_versions_are_written_as_kafka_does(text: str, first: int, last: int) -> None:
    parsed = Versions.parse(text)
    assert (parsed.first, parsed.last) == (first, last)
    assert str(parsed) == text


def test_versions_contain_their_ends() -> None:
    assert [version in Versions(2, 4) for version in range(6)] == [
        False,
        False,
        True,
        True,
        True,
        False,
    ]
    assert 1 not in Versions.parse("none")
    assert "2" not in Versions(2, 4)


def test_defaults_are_not_shared() -> None:
    first, second = Shape(), Shape()
    first.points.append(Point(x=1))
    first.centre.x = 5
    assert second == Shape()


def test_unknown_and_positional_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        Shape(colour="red")
    with pytest.raises(TypeError):
        Shape("round")
    with pytest.raises(TypeError, match="colour"):  # the compiled initializer is in place by now
        Shape(colour="red")


def test_structs_are_slotted() -> None:
    with pytest.raises(AttributeError):
        Shape().colour = "red"


def test_structs_compare_by_class_and_value() -> None:
    assert Point(x=1) == Point(x=1)
    assert Point(x=1) != Point(x=2)
    assert Point() != Shape()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point())


def test_repr_shows_the_fields() -> None:
    assert repr(Point(x=3)) == "Point(x=3, y=-1)"


def test_structs_are_copied_and_pickled() -> None:
    request = HeartbeatRequest(group_id="g")
    assert copy.deepcopy(request) == request
    assert pickle.loads(pickle.dumps(request)) == request


def test_null_versions_follow_the_type() -> None:
    fields = Shape.__fields__
    assert [v in fields["name"].nullable for v in range(3)] == [False, True, True]
    assert fields["label"].nullable == fields["label"].versions
    assert 0 not in fields["points"].nullable


def test_a_field_that_cannot_be_null_needs_a_default() -> None:
    with pytest.raises(TypeError, match="code"):

        class Bad(Struct):
            code: int16 = field("1+")


def test_a_response_has_the_facts_of_its_request() -> None:
    assert HeartbeatRequest.response is HeartbeatResponse
    assert HeartbeatResponse.api_key == HeartbeatRequest.api_key == 12
    assert HeartbeatResponse.versions == HeartbeatRequest.versions == Versions(0, 4)
    assert HeartbeatResponse.flexible is HeartbeatRequest.flexible


def test_a_message_reads_like_kafkas() -> None:
    request = FetchRequest()
    assert request.max_bytes == 0x7FFF_FFFF
    assert request.replica_state == ReplicaState(replica_id=-1, replica_epoch=-1)
    assert FetchPartition().current_leader_epoch == -1
