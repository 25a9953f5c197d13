"""Replicas of which a broker finds no log when it starts: a volume that is not mounted, above all.

Such a broker would lead with nothing where it was the last in sync, and the others would cut back what they have.  So a
known broker does not start on an empty directory while a replica is missing, unless it is told that the data is gone for good.  Where
only logs are missing, and all directories are known, it registers as one that may have lost records: it leaves every ISR that
has another member.
"""

from collections.abc import Container
from pathlib import Path

from tidelog.broker.settings import BrokerConfig
from tidelog.cluster.image import Image
from tidelog.names import TopicPartition
from tidelog.storage.checkpoints import META_PROPERTIES
from tidelog.storage.files import Files

_NAMED = 3
"""How many of the missing ones are told by name."""


def lacks_a_directory(files: Files, broker: BrokerConfig, image: Image) -> str:
    """Why the broker should not start: a directory was never used, and a replica of this broker is nowhere.  Else nothing.

    Called before anything is written to the directories: after that they would look used.
    """
    directories, broker_id = broker.log_dirs, broker.broker_id
    empty = [each for each in directories if not files.exists(str(Path(each, META_PROPERTIES)))]
    held = _held(image, broker_id) if empty else []
    if not held:
        return ""
    found: set[str] = set()
    for each in directories:
        try:
            found.update(files.directories(each))
        except FileNotFoundError:
            continue
        except OSError:
            return ""  # it may be there: the broker goes on without that directory, and with the replica offline
    missing = [each for each in held if str(each) not in found]
    if not missing:
        return ""
    names = ", ".join(map(str, missing[:_NAMED])) + (", …" if len(missing) > _NAMED else "")
    return (
        f"broker {broker_id} is known to the cluster and has {len(missing)} replica(s) ({names}), but {', '.join(empty)} is "
        "empty: is the volume mounted? If what was there is gone for good, start once with --accept-empty: "
        "it is copied from the other replicas then"
    )


def may_lack_records(
    image: Image, broker_id: int, found: Container[TopicPartition]
) -> list[TopicPartition]:
    """Replicas without a log that the cluster takes for complete."""
    return [
        TopicPartition(topic.name, index)
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if len(state.replicas) > 1
        and broker_id in (*state.isr, *state.eligible)
        and TopicPartition(topic.name, index) not in found
    ]


def _held(image: Image, broker_id: int) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, index)
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if broker_id in state.replicas
    ]
