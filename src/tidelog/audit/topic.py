"""The topic that monitoring events are published to."""

from contextlib import suppress

from tidelog.audit.events import TOPIC
from tidelog.client.admin import AsyncAdmin
from tidelog.errors import TopicAlreadyExists

_PARTITIONS = 1
TOPIC_CONFIGS = {"retention.ms": str(30 * 24 * 3600 * 1000)}
"""Thirty days.  Not compacted: when a count came is how late messages are told from the rest."""


async def ensure_topic(admin: AsyncAdmin) -> None:
    """Make the topic unless it is there."""
    if TOPIC in await admin.list_topics(internal=True):
        return
    with suppress(TopicAlreadyExists):  # another was faster
        await admin.create_topics({TOPIC: _PARTITIONS}, configs=TOPIC_CONFIGS)
