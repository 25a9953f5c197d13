"""Real ZooKeeper servers for tests: Debian's package, started on free ports with their own data directories.

    with ZooKeeper(directory, servers=3) as zookeeper:
        zookeeper.address            "zk://127.0.0.1:…,…/"
        zookeeper.leader().kill()

`scripts/zookeeper.sh` installs the package; its own service is not used.
"""

import contextlib
import socket
import subprocess
import time
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

JAR = Path("/usr/share/java/zookeeper.jar")

_NETTY = ("buffer", "codec", "common", "handler", "resolver", "transport")  # it speaks TLS
_JARS = ["zookeeper.jar", "slf4j-simple.jar", *(f"netty-{each}.jar" for each in _NETTY)]

TICK_MS = 250
_PATIENCE_SECONDS = 60


class Server:
    """One server process; `start` after `kill` finds its data again."""

    def __init__(self, directory: Path, configuration: str, number: int, port: int) -> None:
        self.port = port
        self.log = directory / "log"
        self._configuration = directory / "zoo.cfg"
        self._process: subprocess.Popen[bytes] | None = None
        (directory / "data").mkdir(parents=True)
        (directory / "data" / "myid").write_text(str(number))
        self._configuration.write_text(
            f"dataDir={directory / 'data'}\nclientPort={port}\n{configuration}"
        )

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "java",
                    "-Xmx128m",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    # It keeps its newest transactions in memory, also large ones, and the heap is small.
                    "-Dzookeeper.commitLogCount=20",
                    # The tests kill processes, they do not cut the power.
                    "-Dzookeeper.forceSync=no",
                    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                    "-cp",
                    ":".join(str(JAR.with_name(each)) for each in _JARS),
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                    str(self._configuration),
                ],
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(SIGKILL)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(SIGCONT)

    def mode(self) -> str | None:
        """leader, follower or standalone; None while it does not serve."""
        with contextlib.suppress(OSError):
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                answer = b""
                while part := connection.recv(4096):
                    answer += part
            for line in answer.decode().splitlines():
                if line.startswith("Mode: "):
                    return line.removeprefix("Mode: ")
        return None

    def wait(self) -> None:
        """Return when it serves."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while self.mode() is None:
            assert self._process is not None
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.05)


class ZooKeeper:
    """An ensemble, or a single server."""

    def __init__(self, directory: Path, servers: int = 1, more: str = "") -> None:
        """`more` is added to the configuration of each server."""
        ports = _free_ports(3 * servers)
        clients, quorum, election = (
            ports[:servers],
            ports[servers : -servers or None],
            ports[-servers:],
        )
        configuration = (
            f"tickTime={TICK_MS}\ninitLimit=40\nsyncLimit=8\nmaxSessionTimeout=60000\n"
            "maxClientCnxns=0\nadmin.enableServer=false\nstandaloneEnabled=true\n" + more
        )
        if servers > 1:
            for number, (peer, vote) in enumerate(zip(quorum, election, strict=True), 1):
                configuration += f"server.{number}=127.0.0.1:{peer}:{vote}\n"
        self.servers = [
            Server(directory / f"server-{number}", configuration, number, port)
            for number, port in enumerate(clients, 1)
        ]
        self.hosts = [f"127.0.0.1:{server.port}" for server in self.servers]
        self.address = f"zk://{','.join(self.hosts)}"

    def __enter__(self) -> "ZooKeeper":
        try:
            for server in self.servers:
                server.start()
            for server in self.servers:
                server.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.kill()

    def leader(self) -> Server:
        return next(each for each in self.servers if each.mode() == "leader")

    def follower(self) -> Server:
        return next(each for each in self.servers if each.mode() == "follower")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
