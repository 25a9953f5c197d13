"""The clients for asyncio: the same as in `tidelog`, on the caller's own loop.

async with Producer(bootstrap_servers="localhost:9092") as producer:
    delivery = await producer.send("orders", b"...")
    print(await delivery)
"""

from tidelog.client.admin import AsyncAdmin as Admin
from tidelog.client.consumer import AsyncConsumer as Consumer
from tidelog.client.producer import AsyncProducer as Producer
from tidelog.client.simple import AsyncSimpleConsumer as SimpleConsumer

__all__ = ["Admin", "Consumer", "Producer", "SimpleConsumer"]
