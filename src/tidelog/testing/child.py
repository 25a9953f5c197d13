"""The process of a `ChildBroker`: runs a broker and obeys its parent until that closes the channel.

    python -m tidelog.testing.child DESCRIPTOR

The first line tells what to start, and is answered with the port; each further line is a command of
`hosted_broker.py`.
"""

import asyncio
import json
import logging
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidelog.broker.metastores import METADATA_FILE
from tidelog.clock import SystemClock
from tidelog.errors import KafkaError
from tidelog.metastore.sqlite import SqliteMetastore
from tidelog.testing.hosted_broker import Hosted, settings_for
from tidelog.testing.shifted_time import Shift, ShiftedLoop

_LONGEST_LINE_BYTES = 1 << 20


async def _obey(channel: socket.socket, shift: Shift) -> None:
    reader, writer = await asyncio.open_connection(sock=channel, limit=_LONGEST_LINE_BYTES)
    hosted: Hosted | None = None
    directory = ""
    while line := await reader.readline():
        asked = json.loads(line)
        try:
            result: Any
            if hosted is None:
                hosted = _hosted(shift, asked)
                directory = str(Path(asked["directory"]).parent)
                settings = settings_for(asked["directory"], asked["port"], asked["settings"])
                result = (await hosted.start(settings)).port
            else:
                result = await hosted.call(asked["name"], asked["arguments"])
            answer = {"result": result}
        except Exception as error:  # noqa: BLE001  (the parent raises it)
            code = error.code if isinstance(error, KafkaError) else None
            kind = type(error).__name__
            answer = {"error": {"kind": kind, "message": str(error), "code": code}}
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()
    # A parent that is done with us kills us; this one has died, and left what it would have removed.
    if directory:
        shutil.rmtree(directory, ignore_errors=True)


def _hosted(shift: Shift, asked: Mapping[str, Any]) -> Hosted:
    shift.seconds, shift.wall_seconds = asked["shift"]
    given = asked["settings"].get("metastore", "").removeprefix("sqlite:")
    path = Path(given or Path(asked["directory"]) / METADATA_FILE)
    # By the machine's own clock: a step of time must not cost the broker its session.
    return Hosted(shift, lambda: SqliteMetastore(path, SystemClock()))


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s")
    channel = socket.socket(fileno=int(sys.argv[1]))
    shift = Shift()
    loop = ShiftedLoop(shift)
    loop.run_until_complete(_obey(channel, shift))
    os._exit(0)  # the parent is done with us: nothing here is worth keeping


if __name__ == "__main__":
    main()
