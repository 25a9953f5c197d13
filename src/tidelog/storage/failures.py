"""What a refusal of the disk means for a log: a full one refuses a request, a broken one takes the log offline."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError
from tidelog.storage.files import no_descriptor, will_pass
from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from tidelog.storage.log import Log

_logger = logging.getLogger(__name__)


def fail(log: "Log", error: OSError) -> KafkaStorageError:
    """The disk cannot be trusted any more: offline from now on."""
    if log.failure is None:
        log.failure = KafkaStorageError(
            f"the disk of {log.topic_partition} failed: {error.strerror or error}"
        )
        _logger.error("%s is offline: %s", log.directory, error)
        if log.on_failure is not None:
            log.on_failure(log, error)
    return log.failure


def refused(log: "Log", action: str, error: OSError) -> KafkaStorageError:
    """Something could not be done that changed nothing; offline unless that will pass."""
    if not will_pass(error):
        return fail(log, error)
    message = f"cannot {action} {log.topic_partition}: {error.strerror or error}"
    _logger.error("%s", message)
    if not no_descriptor(error) and log.on_full is not None:
        log.on_full()
    return KafkaStorageError(message)


@contextmanager
def read_of(log: "Log") -> Iterator[None]:
    """What is read here changes nothing if it cannot be."""
    try:
        yield
    except OSError as error:
        raise refused(log, "read", error) from error


def write_failed(log: "Log", segment: Segment, error: OSError) -> KafkaStorageError:
    """Undo a write that failed; offline if that fails too, or if the disk is not merely full."""
    if not will_pass(error):
        return fail(log, error)
    try:
        if not no_descriptor(error):  # then nothing was written
            segment.cut_tail()
    except OSError as second:
        return fail(log, second)
    return refused(log, "append to", error)
