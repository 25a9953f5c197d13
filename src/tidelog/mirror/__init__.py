"""Copies topics from one cluster to another, batch by batch, and takes consumer groups along.

    options = MirrorOptions(sources=("a:9092",), target="c:9092", include="orders|page.*")
    async with asyncio.timeout(60):
        await Mirror(options).run()

`tidelog mirror` is the same from a shell.
"""

from tidelog.mirror.mirror import Mirror
from tidelog.mirror.options import MirrorOptions

__all__ = ["Mirror", "MirrorOptions"]
