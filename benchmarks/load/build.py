"""Builds the load generator with the system's C compiler, when it is older than its source."""

import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "load.c"
PROGRAM = HERE.parent.parent / "build" / "load"


def built() -> Path:
    """The program, compiled if need be."""
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < SOURCE.stat().st_mtime:
        PROGRAM.parent.mkdir(exist_ok=True)
        command = ["cc", "-O2", "-Wall", "-Wextra", "-o", str(PROGRAM), str(SOURCE)]
        subprocess.run(command, check=True)
    return PROGRAM


if __name__ == "__main__":
    print(built())
