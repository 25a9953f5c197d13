"""Every kind of fault once, as short as it can be; `make chaos` goes on for longer."""

import os
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent)]

from chaos import bad, run  # noqa: E402

SEED = int(os.environ.get("TIDELOG_CHAOS_SEED", "1"))


@pytest.mark.faults
@pytest.mark.parametrize("metastore", ["sqlite", "zookeeper"])
def test_nothing_is_lost_doubled_or_reordered(metastore: str) -> None:
    result = run(metastore, 0, SEED, shortest=True, once=True)
    assert bad(result) == []
    assert len(result["faults"]) >= 5
