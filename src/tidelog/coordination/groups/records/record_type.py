"""What a file of this package declares: the pair of messages that makes a record."""

from collections.abc import Callable
from typing import Any

from tidelog.dataclass import dataclass
from tidelog.protocol.schema import Message


@dataclass(frozen=True, slots=True)
class RecordType:
    """A key, a value, and the versions in which we write them."""

    key: type[Message]
    value: type[Message]
    value_version: Callable[[Any], int] = lambda value: 0

    @property
    def numbers(self) -> range:
        """The type numbers under which a key of this type is found: its versions."""
        return range(self.key.versions.first, self.key.versions.last + 1)

    @property
    def key_version(self) -> int:
        """The type number that we write: the newest."""
        return self.key.versions.last
