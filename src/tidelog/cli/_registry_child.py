"""`tidelog serve --registry`: a schema registry beside the broker, in a process of its own.

It is started when the broker is ready, so the broker's start is as fast as without, and the two do not share an interpreter.
The broker goes on whatever becomes of it; a registry that ends by itself is started again after a pause, one that cannot
start (no extra, the port is taken) says so in one line and is left alone.
"""

import argparse
import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator

log = logging.getLogger(__name__)

LISTEN = "127.0.0.1:8081"
_PACKAGES = ("fastavro", "uvicorn")
_PAUSE_S = 5.0
_STOP_S = 10.0
_WRONG_USE = 2


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--registry",
        metavar="HOST:PORT",
        nargs="?",
        const=LISTEN,
        help=f"run a schema registry as well, by default on {LISTEN}",
    )


@contextlib.asynccontextmanager
async def registry_beside(listen: str | None, bootstrap: str) -> AsyncIterator[None]:
    """Runs the registry until the block is left; does nothing if none was asked for."""
    if listen is None:
        yield
        return
    missing = _missing_packages()
    if missing:
        log.warning(
            "no schema registry: it needs %s (pip install 'tidelog[schemas]')", ", ".join(missing)
        )
        yield
        return
    task = asyncio.ensure_future(_keep_running(listen, bootstrap))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _missing_packages() -> list[str]:
    from importlib.util import find_spec  # only now: a start without a registry does not pay for it

    return [each for each in _PACKAGES if find_spec(each) is None]


async def _keep_running(listen: str, bootstrap: str) -> None:
    while True:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tidelog", "registry", "--until-eof"),
            *("--bootstrap", bootstrap, "--listen", listen),
            # The other end closes with this process, however it ends; then the registry ends, too.
            stdin=asyncio.subprocess.PIPE,
        )
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _stop(process)
            raise
        if code == _WRONG_USE:  # it has said why
            return
        log.warning("the schema registry ended with code %d; it is started again", code)
        await asyncio.sleep(_PAUSE_S)


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
