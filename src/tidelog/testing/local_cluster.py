"""A real cluster on this machine, for tests: several `LocalBroker`s on one metastore.

    with LocalCluster(3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        cluster.brokers[0].kill()

Without a metastore of the caller's the brokers share an SQLite file in the cluster's directory.
"""

import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from tidelog.testing.local_broker import LocalBroker


class LocalCluster:
    """Brokers 0, 1, 2 … in processes of their own; `settings` are those of all of them."""

    def __init__(
        self,
        size: int = 3,
        directory: Path | str | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        metastore: str | None = None,
    ) -> None:
        self._owns_directory = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix="tidelog-"))
        self.metastore = metastore or f"sqlite:{self.directory / 'metadata.db'}"
        self.brokers = [
            LocalBroker(
                self.directory / f"broker-{number}",
                settings=settings,
                arguments=["--broker-id", str(number), "--metastore", self.metastore],
            )
            for number in range(size)
        ]

    @property
    def bootstrap(self) -> str:
        """All addresses, to give to a client."""
        return ",".join(each.bootstrap for each in self.brokers)

    def start(self) -> Self:
        """Start all brokers at once, and return when all accept connections."""
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(LocalBroker.start, self.brokers))
        return self

    def log(self) -> str:
        """What all brokers have printed."""
        return "\n".join(f"--- {each.directory.name}\n{each.log()}" for each in self.brokers)

    def close(self) -> None:
        """Stop whoever runs, and remove the directory if it is ours."""
        try:
            with ThreadPoolExecutor(len(self.brokers)) as threads:
                list(threads.map(LocalBroker.close, self.brokers))
        finally:
            if self._owns_directory:
                shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
