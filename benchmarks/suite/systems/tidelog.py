"""tidelog of this tree, as `tidelog serve` starts it."""

import subprocess
import sys
from pathlib import Path

from suite.systems.base import KAFKA, System
from suite.wire import answers

_SOURCE = Path(__file__).resolve().parents[3]


class Tidelog(System):
    name = "tidelog"
    protocol = KAFKA
    settings = "defaults"

    def check(self) -> None:
        from tidelog.kernel import COMPILED

        if not COMPILED:
            raise SystemExit(
                "the kernel is not compiled; its figures would say nothing: make clean run"
            )

    def version(self) -> str:
        from importlib.metadata import version

        command = ["git", "-C", str(_SOURCE), "describe", "--always", "--dirty"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        python = f"Python {sys.version.split()[0]}"
        return f"{version('tidelog')} ({done.stdout.strip() or 'no commit'}, {python})"

    def command(self) -> list[str]:
        listen, data = f"PLAINTEXT://{self.bootstrap}", str(self.directory / "data")
        return [sys.executable, "-m", "tidelog", "serve", "--listen", listen, "--data", data]

    def environment(self) -> dict[str, str]:
        # As with whoever has installed it: not compiled anew at every start.
        return {"PYTHONDONTWRITEBYTECODE": ""}

    def is_ready(self) -> bool:
        return answers(self.port)
