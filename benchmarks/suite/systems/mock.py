"""librdkafka's mock cluster: takes batches and keeps the last few in memory.  What a client can do when the broker does nothing."""

import re
import subprocess

from suite.drivers.build import program
from suite.systems.base import KAFKA, System
from suite.wire import answers


class Mock(System):
    name = "librdkafka's mock"
    protocol = KAFKA
    settings = "in memory, keeps little, checks nothing: a floor, not a rival"

    def check(self) -> None:
        program("kafka")

    def version(self) -> str:
        done = subprocess.run(
            [str(program("kafka")), "version"], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def command(self) -> list[str]:
        return [str(program("kafka")), "mock"]

    def is_ready(self) -> bool:
        """It takes a port of its own and prints it."""
        address = re.search(r"^127\.0\.0\.1:(\d+)$", self.log(), re.MULTILINE)
        if address is None:
            return False
        self.port = int(address[1])
        return answers(self.port)
