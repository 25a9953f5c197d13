"""What a topic may be called."""

import pytest

from tidelog.errors import InvalidTopicException
from tidelog.names import TOPIC_NAME_MAX, TopicPartition, check_topic_name


@pytest.mark.parametrize(
    "name", ["a", "orders", "A.b_c-9", "...", "__consumer_offsets", "x" * TOPIC_NAME_MAX]
)
def test_legal_names(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty"),
        (".", "named '.'"),
        ("..", "named '..'"),
        ("a/b", "characters other than"),
        ("a b", "characters other than"),
        ("größe", "characters other than"),
        ("a\n", "characters other than"),
        ("a\x00", "characters other than"),
        ("x" * (TOPIC_NAME_MAX + 1), "250 characters"),
        ("x" * 300, "300 characters"),
    ],
)
def test_illegal_names_say_why(name: str, why: str) -> None:
    with pytest.raises(InvalidTopicException, match=why):
        check_topic_name(name)


def test_a_partition_is_written_as_its_directory_is() -> None:
    assert str(TopicPartition("orders-eu", 3)) == "orders-eu-3"
    assert f"{TopicPartition('a', 0)}" == "a-0"
