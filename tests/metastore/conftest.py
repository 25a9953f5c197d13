"""The rigs of the contract, for tests of one store."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# For the modules of the contract's tests: tests are imported without a package.
sys.path[:0] = [str(Path(__file__).parents[1] / "contracts")]

from zookeeper import JAR, ZooKeeper  # noqa: E402


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    yield from _servers(tmp_path_factory.mktemp("zookeeper"), 1)


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    yield from _servers(tmp_path_factory.mktemp("ensemble"), 3)


def _servers(directory: Path, count: int) -> Iterator[ZooKeeper]:
    if not JAR.exists():
        pytest.skip("ZooKeeper is not installed; scripts/zookeeper.sh does it")
    with ZooKeeper(directory, count) as zookeeper:
        yield zookeeper
