"""What all brokers must agree on though each has a settings file of its own: pure functions.

Who may be elected follows from how many replicas had to be in sync when something was committed (`eligible.py`).  If a leader
went by its own min.insync.replicas and the controller by another, records would be lost that were acknowledged.  So the value
is in the metadata log: a topic's own, else the dynamic one of all brokers, else the controller's, which writes its own down
before it decides anything (`Image.min_in_sync`).  Leaders go by their image.  A new value comes into force everywhere at the same place
of the log; when another broker becomes the controller, so may its value.
"""

from collections.abc import Mapping

from tidelog.cluster.image import CLUSTER, MIN_IN_SYNC, Image
from tidelog.cluster.metadata import ConfigRecord

SHARED = frozenset({MIN_IN_SYNC})
"""Settings of which a single broker cannot have a value of its own."""


def shared_settings(image: Image, own: Mapping[str, str]) -> list[ConfigRecord]:
    """What must be written so that the image has the controller's `own` values."""
    known = image.config((CLUSTER, ""))
    return [
        ConfigRecord(CLUSTER, "", key, value)
        for key, value in own.items()
        if known.get(key) != value
    ]
