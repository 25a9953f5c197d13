"""Several brokers on one machine as one command: `tidelog serve --brokers 3`.

Each broker is a process of its own, an ordinary member of a cluster whose metadata is in one SQLite file.  The supervisor
starts them, passes on what they log with the broker's number in front, starts one again that has died, and stops all in good
order.  Should the supervisor itself be killed, the brokers stop: they notice that their standard input has ended.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tidelog.broker.addresses import Listener
from tidelog.broker.settings import BrokerSettings
from tidelog.cli._beside import companions, running_beside
from tidelog.cli._ready import announce
from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError

log = logging.getLogger(__name__)

METADATA_FILE = "metadata.db"

_HIGHEST_PORT = 65535
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_LIVED_LONG_S = 10.0
_LOOK_EVERY_S = 0.02
_WRONG_USE = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """One broker of the cluster: what it is started with."""

    broker_id: int
    settings: dict[str, str]


def plans(settings: BrokerSettings, count: int) -> list[Plan]:
    """The brokers: consecutive ids, consecutive ports, a directory each, one metastore."""
    directories = [Path(each) for each in settings.broker.log_dirs]
    metastore = settings.cluster.metastore or f"sqlite:{directories[0] / METADATA_FILE}"
    first = settings.broker.broker_id
    made = []
    for turn in range(count):
        given = {
            "broker.id": str(first + turn),
            "log.dirs": ",".join(str(each / f"broker-{first + turn}") for each in directories),
            "metastore": metastore,
            "listeners": _shifted(settings.listeners(), turn),
        }
        metrics = settings.metrics_listener()
        if metrics is not None:
            given["metrics.listener"] = _shifted([metrics], turn).partition("://")[2]
        if settings.advertised():
            given["advertised.listeners"] = _shifted(settings.advertised(), turn)
        made.append(Plan(first + turn, given))
    return made


class Supervisor:
    """Runs the brokers of `plans` until told to stop."""

    def __init__(
        self, plans: list[Plan], arguments: argparse.Namespace, settings: BrokerSettings
    ) -> None:
        self._plans = plans
        self._arguments = arguments
        self._settings = settings
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()
        self._refused: int | None = None
        """Exit code of a broker that could not start the first time."""

    async def run(self) -> int:
        """Returns the exit code: 0 after a stop in good order."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, self._told_to_stop)
        with TemporaryDirectory(prefix="tidelog-") as directory:
            ready = [Path(directory) / f"ready-{plan.broker_id}" for plan in self._plans]
            keeping = [
                asyncio.create_task(self._keep(plan, path))
                for plan, path in zip(self._plans, ready, strict=True)
            ]
            announcing = asyncio.create_task(self._announce(ready))
            announcing.add_done_callback(self._announced)
            await asyncio.gather(*keeping)
            announcing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await announcing
        return self._refused or 0

    def _announced(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._told_to_stop()  # the caller is told why at the end

    def _told_to_stop(self) -> None:
        again = self._stopping.is_set()
        self._stopping.set()
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGKILL if again else signal.SIGTERM)

    async def _keep(self, plan: Plan, ready: Path) -> None:
        """Run one broker, again and again."""
        loop = asyncio.get_running_loop()
        pause, again = 0.0, False
        while not self._stopping.is_set():
            started = loop.time()
            code = await self._run_once(plan, ready, again=again)
            again = True
            if self._stopping.is_set():
                return
            if code == _WRONG_USE and not _exists(ready):
                self._refused = code  # it has said why; so it will be the next time
                self._told_to_stop()
                return
            lived_long = loop.time() - started > _LIVED_LONG_S
            pause = (
                _FIRST_PAUSE_S if lived_long else min(2 * pause or _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
            )
            log.warning(
                "broker %d has ended (%s); it is started again in %.1f s",
                plan.broker_id,
                _how(code),
                pause,
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()

    async def _run_once(self, plan: Plan, ready: Path, *, again: bool) -> int:
        command = self._command(plan, ready)
        if (
            self._arguments.accept_empty and not again
        ):  # a directory that is empty later is another matter
            command.append("--accept-empty")
        child = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C is for the supervisor, which hands it on once.
            start_new_session=True,
        )
        self._children[plan.broker_id] = child
        try:
            if self._stopping.is_set():
                child.terminate()
            assert child.stderr is not None
            async for line in child.stderr:
                text = line.decode(errors="replace")
                # An object of JSON says itself from which broker it is.
                head = "" if text.startswith("{") else f"broker {plan.broker_id} | "
                sys.stderr.write(head + text)
            return await child.wait()
        finally:
            del self._children[plan.broker_id]

    def _command(self, plan: Plan, ready: Path) -> list[str]:
        arguments = self._arguments
        command = [sys.executable, "-m", "tidelog", "serve", "--until-eof"]
        command += ["--log-level", arguments.log_level, "--log-format", arguments.log_format]
        command += ["--ready-file", str(ready)]
        command += ["--config", arguments.config] if arguments.config else []
        command += ["--metrics", "off"] if arguments.metrics == "off" else []
        for each in arguments.settings or ():
            command += ["-X", each]
        for name, value in plan.settings.items():
            command += ["-X", f"{name}={value}"]
        return command

    async def _announce(self, ready: list[Path]) -> None:
        """Tell the user when all brokers have come up for the first time, and run what else was asked for."""
        while not all(map(_exists, ready)):  # noqa: ASYNC110  (children cannot ring)
            await asyncio.sleep(_LOOK_EVERY_S)
        addresses = [line for path in ready for line in path.read_text().splitlines()]
        if self._arguments.ready_file:
            announce(Path(self._arguments.ready_file), addresses)
        print(self._banner(addresses), flush=True)
        async with running_beside(companions(self._arguments, ",".join(addresses), self._settings)):
            await self._stopping.wait()

    def _banner(self, addresses: list[str]) -> str:
        all_of_them = ",".join(addresses)
        lines = [
            f"tidelog is ready: {len(self._plans)} brokers on {', '.join(addresses)} (pid {os.getpid()})",
            f"  metadata   {self._plans[0].settings['metastore']}",
        ]
        for plan in self._plans:
            child = self._children.get(plan.broker_id)
            pid = f"pid {child.pid}" if child else "not running"
            lines.append(f"  broker {plan.broker_id:<3} {plan.settings['log.dirs']} ({pid})")
        lines += (f"  open       {each}" for each in self._settings.open_doors())
        lines += [
            f"  try        tidelog topic create hello -p 3 -r {len(self._plans)} -b {addresses[0]}",
            f"             tidelog topic describe hello -b {all_of_them}",
        ]
        return "\n".join(lines)


def _exists(path: Path) -> bool:
    return path.exists()


def _shifted(listeners: list[Listener], turn: int) -> str:
    """The listeners of the broker whose turn it is: each port is one more than that of the broker before."""
    return ",".join(_addresses(listeners, turn))


def _addresses(listeners: list[Listener], turn: int) -> Iterator[str]:
    for name, host, port, _ in listeners:
        where = 0 if port == 0 else port + turn
        if where > _HIGHEST_PORT:
            raise SettingsError(f"--brokers needs port {where}, and ports end at {_HIGHEST_PORT}")
        yield f"{name}://{f'[{host}]' if ':' in host else host}:{where}"


def _how(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
