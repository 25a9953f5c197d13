"""Which metadata every broker can read: told at registration, kept in the metadata log.

A record of the log that a broker cannot read stops it.  So the controller writes nothing newer than what all registered brokers
can read, those that are down included, for they come back.

A broker's version is kept as a setting of a resource that older brokers pass over.  (A new field of `BrokerRecord` would stop
them.)  It holds for one incarnation: an older program under the same id, registered by an older controller, has none.
"""

from tidelog.cluster.image import VERSION, Image
from tidelog.cluster.metadata import ConfigRecord, Record, version_of
from tidelog.errors import UnsupportedVersion

FEATURE = "tidelog.metadata.version"
"""As a broker tells it at registration, and its clients by ApiVersions.  Not Kafka's `metadata.version`: that counts other things."""


def noted(image: Image, broker_id: int, incarnation: str, version: int) -> list[Record]:
    """What must be written so that the image has a broker's version."""
    value = f"{version} {incarnation}" if version > 1 else None
    if image.config((VERSION, str(broker_id))).get(FEATURE) == value:
        return []
    return [ConfigRecord(VERSION, str(broker_id), FEATURE, value)]


def forgotten(image: Image, broker_id: int) -> list[Record]:
    """The broker will not come back."""
    known = image.config((VERSION, str(broker_id)))
    return [ConfigRecord(VERSION, str(broker_id), key, None) for key in known]


def check_readable(image: Image, records: list[Record]) -> None:
    """Raise `UnsupportedVersion` if a registered broker could not read these records."""
    needed = version_of(records)
    # Whoever registers with these records is not looked for: it reads what it asks for.
    if needed > 1 and needed > image.metadata_version:
        old = [each.id for each in image.brokers.values() if image.version_of(each) < needed]
        raise UnsupportedVersion(
            f"this needs metadata version {needed}, which broker(s) {old} cannot read: update them, "
            "or unregister those that are gone for good"
        )
