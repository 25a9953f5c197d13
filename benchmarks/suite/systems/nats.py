"""NATS of the system's package with JetStream, its streams in files."""

import shutil

from suite.drivers.build import Missing, program
from suite.systems.base import System, package_version


class Nats(System):
    name = "NATS JetStream"
    protocol = "nats"
    settings = "defaults; file storage, one replica; its files are synced every two minutes"

    def check(self) -> None:
        if shutil.which("nats-server") is None:
            raise Missing("NATS (package nats-server)")
        program("nats")

    def version(self) -> str:
        return package_version("nats-server")

    def command(self) -> list[str]:
        store = str(self.directory / "store")
        return ["nats-server", "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", store]
