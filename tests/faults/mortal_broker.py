"""A broker whose power fails: `tidelog serve` on a `FaultyFiles`, run by `test_power_cut` as a child process.

Three arguments come before those of `serve`: the number of the write point at which the power fails (-1: never),
what becomes of that write (a `Fault`), and the seed that decides which of the writes that nobody synced survive
(`none`: not one).  The disk that fails is the directory that holds the data directory.  The metadata is kept outside of
it: to bring them through a power cut is SQLite's part.
"""

import argparse
import asyncio
import logging
import os
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tidelog.broker.broker import Broker
from tidelog.broker.metastores import METADATA_FILE
from tidelog.cli import serve
from tidelog.clock import SystemClock
from tidelog.metastore.sqlite import SqliteMetastore
from tidelog.testing.faulty_files import Fault, FaultyFiles, at

CUT = 77
"""The exit code of a broker whose power failed."""


class MortalFiles(FaultyFiles):
    """The first death is a power cut of the whole process."""

    survivors: int | None = None
    dead = False

    def at_point(self, action: str, path: str, half: Callable[[], None] | None = None) -> bool:
        if self.dead:
            threading.Event().wait()  # another thread is ending the process
        return super().at_point(action, path, half)

    def die(self) -> None:
        # First of all nobody hears from this process any more: what other threads are syncing just now is
        # acknowledged to no one.
        logging.disable()
        _cut_the_cables()
        self.dead = True
        self.cut_power(self.survivors)
        os._exit(CUT)


def main() -> None:
    point, fault, survivors, *options = sys.argv[1:]
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    arguments = parser.parse_args(options)
    logging.basicConfig(level=logging.INFO)
    disk = Path(arguments.data[0]).parent
    files = MortalFiles(str(disk), plan=at(int(point), Fault[fault]))
    files.survivors = None if survivors == "none" else int(survivors)
    asyncio.run(_serve(arguments, files, disk.with_name(METADATA_FILE)))


async def _serve(arguments: argparse.Namespace, files: FaultyFiles, metadata: Path) -> None:
    clock = SystemClock()
    metastore = SqliteMetastore(metadata, clock)
    broker = Broker(serve.settings_from(arguments), clock=clock, files=files, metastore=metastore)
    await broker.start()
    ready = Path(arguments.ready_file)
    half = ready.with_name(ready.name + ".tmp")
    half.write_text("".join(f"{each}\n" for each in broker.addresses))
    half.rename(ready)
    await asyncio.Event().wait()


def _cut_the_cables() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                os.dup2(nowhere, int(name))
        except OSError:
            continue  # closed meanwhile


if __name__ == "__main__":
    main()
