"""Stores to test: memory, SQLite, and a ZooKeeper server that the tests of a worker share."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

# For the modules beside this one: tests are imported without a package.
sys.path[:0] = [str(Path(__file__).parent)]

from rigs import MemoryRig, Rig, SqliteRig, ZooKeeperRig  # noqa: E402
from zookeeper import JAR, ZooKeeper  # noqa: E402


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    if not JAR.exists():
        pytest.skip("ZooKeeper is not installed; scripts/zookeeper.sh does it")
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as zookeeper:
        yield zookeeper


@pytest.fixture(params=["memory", "sqlite", "zookeeper"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    rig: Rig
    if request.param == "memory":
        rig = MemoryRig()
    elif request.param == "sqlite":
        rig = SqliteRig(tmp_path)
    else:
        rig = ZooKeeperRig(request.getfixturevalue("zookeeper"))
    yield rig
    await rig.close()
