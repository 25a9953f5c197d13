"""A member of a store in a process of its own, that does as it is told: for kill -9 and SIGSTOP.

    member = await Member.start("sqlite:/tmp/metadata.db")
    session = await member.call("open_session", 1, 2_000)
    member.signal(SIGSTOP)

In the child, each line of the input is a call, each line of the output its result.
"""

import asyncio
import json
import sys
from signal import SIGKILL
from typing import Any

from tidelog.clock import SystemClock
from tidelog.metastore import contract
from tidelog.metastore.address import open_metastore
from tidelog.metastore.contract import Metastore, MetastoreError, Session


class Member:
    """The parent's side."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, address: str) -> "Member":
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            __file__,
            address,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return cls(process)

    async def call(self, name: str, *args: object) -> Any:
        """Call a method of the child's handle; a session is called by its member's number."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, *args]).encode() + b"\n")
        async with asyncio.timeout(60):
            line = await self._process.stdout.readline()
        result, error, message = json.loads(line)
        if error is not None:
            raise getattr(contract, error)(message)
        return result

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.send_signal(SIGKILL)
        await self._process.wait()
        # The transport is closed by the loop once the pipes have ended.
        assert self._process.stdout is not None
        await self._process.stdout.read()


class Child:
    """The child's side."""

    def __init__(self, store: Metastore) -> None:
        self._store = store
        self._sessions: dict[int, Session] = {}

    async def open_session(self, member: int, timeout_ms: int) -> list[object]:
        session = await self._store.open_session(member, timeout_ms)
        self._sessions[member] = session
        return [session.member, session.token, session.timeout_ms]

    async def heartbeat(self, member: int) -> float:
        """The deadline afterwards."""
        await self._store.heartbeat(self._sessions[member])
        return self._store.session_deadline(self._sessions[member])

    async def close_session(self, member: int) -> None:
        await self._store.close_session(self._sessions[member])

    async def lead(self, member: int) -> int | None:
        return await self._store.lead(self._sessions[member])

    async def append(self, epoch: int, text: str) -> int:
        return await self._store.append(epoch, text.encode())

    async def compete(self, member: int, rounds: int, appends: int) -> list[list[object]]:
        """Lead `rounds` times and append as often each time, against whoever else does so; what was appended."""
        written: list[list[object]] = []
        for number in range(rounds):
            session = await self._store.open_session(member, 60_000)
            while True:
                tick = await self._store.tick()
                epoch = await self._store.lead(session)
                if epoch is not None:
                    break
                await self._store.wait(tick)
            for each in range(appends):
                text = f"{member}/{number}/{each}/{epoch}"
                written.append([await self._store.append(epoch, text.encode()), text])
            await self._store.close_session(session)
        return written

    async def answer(self, line: str) -> str:
        name, *args = json.loads(line)
        try:
            return json.dumps([await getattr(self, name)(*args), None, None])
        except MetastoreError as error:
            return json.dumps([None, type(error).__name__, str(error)])


async def main(address: str) -> None:
    async with open_metastore(address, SystemClock()) as store:
        child = Child(store)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(await child.answer(line), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
