"""A TCP proxy in a thread of its own, for brokers in other processes: it can be cut, and made slow and lossy.

The address stays the same over everything, as that of a machine does.
"""

import asyncio
import contextlib
import random
import threading


class ThreadProxy:
    """Passes on what comes to `address` to a port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_cut = False
        self._delay_s = 0.0
        self._breaks = 0.0
        self._chance = random.Random(0)
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Break all connections, and let none through."""
        self._is_cut = True
        self._loop.call_soon_threadsafe(self._drop)

    def slow(self, delay_s: float, breaks: float, chance: random.Random) -> None:
        """Hold everything back for so long, and break a connection now and then (`breaks` of all packets)."""
        self._delay_s, self._breaks = delay_s, breaks
        self._chance = random.Random(chance.random())

    def mend(self) -> None:
        """Pass everything on again, at once."""
        self._is_cut = False
        self._delay_s = self._breaks = 0.0

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            self._drop()
            tasks = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _drop(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, there_writer}
        self._writers |= both
        try:
            await asyncio.gather(self._pass(reader, there_writer), self._pass(there_reader, writer))
        finally:
            self._writers -= both
            for each in both:
                each.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                if self._breaks and self._chance.random() < self._breaks:
                    break
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
