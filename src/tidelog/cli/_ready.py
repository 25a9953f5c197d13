"""`--ready-file`: tells whoever waits for it that connections are accepted, and where."""

from collections.abc import Iterable
from pathlib import Path

from tidelog.errors import StartError


def announce(path: Path, addresses: Iterable[object]) -> None:
    """Write the addresses, one a line; whoever waits for the file does not find half of it."""
    half = path.with_name(path.name + ".tmp")
    try:
        half.write_text("".join(f"{each}\n" for each in addresses))
        half.rename(path)
    except OSError as error:
        raise StartError(f"--ready-file {path} cannot be written: {error.strerror}") from error
