"""The flush that a partition's flush policy asks for: one task, which goes on until what was appended meanwhile is flushed too."""

import logging
from typing import TYPE_CHECKING

from tidelog.errors import KafkaError, KafkaStorageError, UnknownServerError
from tidelog.storage.flusher import Flusher

if TYPE_CHECKING:
    from tidelog.cluster.partition import Partition

_log = logging.getLogger(__name__)


async def flush_until_clean(partition: "Partition", flusher: Flusher) -> None:
    """Flush until no flush is due; appends made meanwhile share the next one."""
    log = partition.log
    try:
        while True:
            end = log.log_end_offset
            await flusher.flush(log, end)
            if partition.not_leading is not None:
                return
            if not log.flush_due():
                partition.flushed_to(log.log_end_offset)
                return
            partition.flushed_to(min(end, log.log_end_offset))
    except KafkaError as error:
        partition.fail_commits(error)
    except OSError as error:
        failure = KafkaStorageError(f"the flush of {log.topic_partition} failed: {error}")
        partition.fail_commits(failure)
    except Exception:  # noqa: BLE001  (the root of the task)
        partition.fail_commits(UnknownServerError())
        _log.exception("the flush of %s failed", log.topic_partition)
    finally:
        partition.flush_ended()
