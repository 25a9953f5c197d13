"""What the fixture's `topic` does when it is asked for the same topic again."""

import pytest

from tidelog.testing.fixture import Tidelog


def test_a_topic_that_is_asked_for_again_grows_or_the_call_says_why_not(tidelog: Tidelog) -> None:
    topic = tidelog.topic("p", 1, configs={"retention.ms": 5000})
    assert tidelog.topic("p") == topic
    assert tidelog.topic("p", 6) == topic
    assert len(tidelog.admin.describe_topics([topic])[topic].partitions) == 6
    assert tidelog.produce(topic, b"x", partition=5)[0].partition == 5
    assert tidelog.topic("p", 6, configs={"retention.ms": "5000"}) == topic
    with pytest.raises(ValueError, match=r"topic\('p'\) has 6 partitions and cannot have 2"):
        tidelog.topic("p", 2)
    with pytest.raises(ValueError, match="was made with configs="):
        tidelog.topic("p", configs={"retention.ms": 7000})
