"""RabbitMQ of the system's package: one node, its data in our directory, durable classic queues, driven over AMQP 0-9-1."""

import contextlib
import os
import shutil
import socket
import subprocess
from pathlib import Path

from suite.drivers.build import Missing, program
from suite.systems.base import System, free_port, package_version

_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class RabbitMq(System):
    name = "RabbitMQ"
    protocol = "amqp"
    settings = "defaults, no plugins; durable classic queue, persistent messages"

    def check(self) -> None:
        if not _SERVER.exists():
            raise Missing("RabbitMQ (package rabbitmq-server)")
        program("amqp")

    def version(self) -> str:
        return package_version("rabbitmq-server")

    def prepare(self) -> None:
        self._epmd_port, self._dist_port = free_port(), free_port()
        (self.directory / "enabled_plugins").write_text("[].\n")

    def command(self) -> list[str]:
        return [str(_SERVER)]

    def environment(self) -> dict[str, str]:
        base = str(self.directory)
        return {
            "HOME": base,
            "RABBITMQ_MNESIA_BASE": f"{base}/mnesia",
            "RABBITMQ_LOG_BASE": f"{base}/log",
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{base}/enabled_plugins",
            "RABBITMQ_CONF_ENV_FILE": f"{base}/no-such-file",
            "RABBITMQ_CONFIG_FILE": f"{base}/no-config",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_RELAXED_COMMAND_CHECK": "true",
        }

    def is_ready(self) -> bool:
        """It listens before it serves: wait for its side of the handshake."""
        place = ("127.0.0.1", self.port)
        with contextlib.suppress(OSError), socket.create_connection(place, 1) as sock:
            sock.sendall(b"AMQP\x00\x00\x09\x01")
            return sock.recv(1) == b"\x01"
        return False

    def clean_up(self) -> None:
        """Erlang's port mapper runs on; ours, on our port, is stopped."""
        epmd = shutil.which("epmd")
        if epmd:
            subprocess.run(
                [epmd, "-kill"],
                env=os.environ | self.environment(),
                capture_output=True,
                check=False,
            )
