"""A network that can be hurt: a TCP proxy between a client and a server.

async with TcpProxy("127.0.0.1:2181") as proxy:
    connect(proxy.address)
    proxy.freeze()      # nothing passes any more, and nobody is told
    proxy.deafen()      # requests pass, answers do not
    proxy.thaw()
    proxy.cut()         # connections break, and new ones are refused
    proxy.mend()
"""

import asyncio
import contextlib
from typing import Self


class TcpProxy:
    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._requests_pass = asyncio.Event()
        self._answers_pass = asyncio.Event()
        self._is_cut = False
        self.address = ""
        self.thaw()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def freeze(self) -> None:
        self._requests_pass.clear()
        self._answers_pass.clear()

    def deafen(self) -> None:
        self._answers_pass.clear()

    def thaw(self) -> None:
        self._requests_pass.set()
        self._answers_pass.set()

    def cut(self) -> None:
        self._is_cut = True
        self.drop()

    def drop(self) -> None:
        """Break the present connections; new ones are welcome unless cut."""
        for writer in list(self._writers):
            writer.transport.abort()

    def mend(self) -> None:
        self._is_cut = False
        self.thaw()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        try:
            if not self._is_cut:
                with contextlib.suppress(OSError):
                    await self._relay(reader, writer)
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(self._host, self._port)
        self._writers.add(server_writer)
        ways = [
            asyncio.ensure_future(_pump(reader, server_writer, self._requests_pass)),
            asyncio.ensure_future(_pump(server_reader, writer, self._answers_pass)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._writers.discard(server_writer)
            server_writer.transport.abort()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event
) -> None:
    while data := await reader.read(65536):
        await passes.wait()
        writer.write(data)
        await writer.drain()
