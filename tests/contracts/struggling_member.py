"""A member that wants to lead and to append, for ever: one line of output for each append that was acknowledged.

    python struggling_member.py ADDRESS MEMBER TIMEOUT_MS

A line is the entry's number and its text, "MEMBER/RUN/SERIAL/EPOCH"; the number is "?" when it is not known whether the
append has happened.  RUN tells the process from earlier ones of the same member.
"""

import asyncio
import contextlib
import os
import sys

from tidelog.clock import SystemClock
from tidelog.metastore.address import open_metastore
from tidelog.metastore.contract import (
    Fenced,
    MemberTaken,
    Metastore,
    MetastoreError,
    Session,
    SessionLost,
)

_serial = 0


async def struggle(store: Metastore, member: int, timeout_ms: int) -> None:
    while True:
        tick = await store.tick()
        try:
            session = await store.open_session(member, timeout_ms)
        except MemberTaken:
            await store.wait(tick)
            continue
        async with asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(beat(store, session))
            with contextlib.suppress(SessionLost):
                await lead(store, session)
            beating.cancel()
        await store.close_session(session)


async def beat(store: Metastore, session: Session) -> None:
    while True:
        try:
            await store.heartbeat(session)
        except SessionLost:
            return
        except MetastoreError as error:
            print(error, file=sys.stderr)
        await asyncio.sleep(session.timeout_ms / 4000)


async def lead(store: Metastore, session: Session) -> None:
    while True:
        tick = await store.tick()
        epoch = await store.lead(session)
        if epoch is not None:
            await append_as(store, epoch, session.member)
        else:
            await store.wait(tick)


async def append_as(store: Metastore, epoch: int, member: int) -> None:
    global _serial
    while True:
        _serial += 1
        text = f"{member}/{os.getpid()}/{_serial}/{epoch}"
        try:
            print(await store.append(epoch, text.encode()), text, flush=True)
        except Fenced:
            return
        except MetastoreError:
            print("?", text, flush=True)


async def main(address: str, member: int, timeout_ms: int) -> None:
    async with open_metastore(address, SystemClock()) as store:
        while True:
            try:
                await struggle(store, member, timeout_ms)
            except* MetastoreError as error:
                print(error, file=sys.stderr)
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
