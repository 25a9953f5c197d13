"""Makes `hot_path`, the rig of this folder's tests, importable."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from hot_path import HotPath


@pytest.fixture
def hot(tmp_path) -> HotPath:
    """Two partitions of `events`."""
    return HotPath(tmp_path)
