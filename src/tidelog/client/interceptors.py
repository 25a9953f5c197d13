"""What a producer's own functions see of a record: before it is sent, and when it is known what became of it.

    def stamp(record: ProducerRecord) -> ProducerRecord:
        return record._replace(headers=[*record.headers, ("sent-by", b"front-end")])

    def told(error: Exception | None, where: RecordMetadata) -> None: ...

    Producer(bootstrap_servers="…", interceptors=[stamp], on_delivery=told)

An interceptor is called by `send`, in the caller's thread, before keys and values are serialised; what it raises `send` raises.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from tidelog.client.batch import Delivery
from tidelog.names import RecordMetadata

Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]


class ProducerRecord(NamedTuple):
    """What `send` was given."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Iterable[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


Interceptor = Callable[[ProducerRecord], ProducerRecord]
"""Returns the record as it is to be sent: the same, or another."""

OnDelivery = Callable[[Exception | None, RecordMetadata], None]
"""Is told what went wrong, or None, and where the record is; of one that was not written the offset is -1."""


def intercepted(interceptors: Iterable[Interceptor], record: ProducerRecord) -> ProducerRecord:
    """What the interceptors, one after another, make of a record."""
    for each in interceptors:
        changed = each(record)
        if not isinstance(changed, ProducerRecord):
            raise TypeError(
                f"the interceptor {each!r} returned {type(changed).__name__}; it must return a ProducerRecord"
            )
        record = changed
    return record


def headers_of(headers: Headers | None) -> tuple[tuple[str, bytes | None], ...]:
    """Headers, in whichever way they were given."""
    if not headers:
        return ()
    return tuple(headers.items() if isinstance(headers, Mapping) else headers)


def tell(delivery: Delivery, on_delivery: OnDelivery) -> None:
    """Have the function called when it is known what became of the record; from the client's thread, so it should be brief."""
    delivery.add_done_callback(partial(_tell, on_delivery))


def _tell(on_delivery: OnDelivery, delivery: Delivery) -> None:
    error = delivery.exception()
    if error is None:
        on_delivery(None, delivery.result())
    else:
        topic, partition = delivery.batch.partition
        on_delivery(error, RecordMetadata(topic, partition, -1, -1))
