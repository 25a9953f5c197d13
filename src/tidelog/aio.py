"""The clients for asyncio: the same as in `tidelog`, on the caller's own loop.

async with Producer(bootstrap_servers="localhost:9092") as producer:
    delivery = await producer.send("orders", b"...")
    print(await delivery)

`read` gives a table when it is awaited, and `scan` is an async iterator of Arrow's record batches.
"""

from typing import TYPE_CHECKING

from tidelog.client.admin import AsyncAdmin as Admin
from tidelog.client.consumer import AsyncConsumer as Consumer
from tidelog.client.producer import AsyncProducer as Producer
from tidelog.client.simple import AsyncSimpleConsumer as SimpleConsumer

if TYPE_CHECKING:
    from tidelog.client.reading import read_async as read
    from tidelog.client.reading import scan_async as scan

__all__ = ["Admin", "Consumer", "Producer", "SimpleConsumer", "read", "scan"]


def __getattr__(name: str) -> object:
    if name not in ("read", "scan"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tidelog.client import reading  # which needs pyarrow

    return getattr(reading, f"{name}_async")
