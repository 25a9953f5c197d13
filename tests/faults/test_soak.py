"""Some hundred transactions on three real brokers, without faults and with them; `make soak` runs 20,000."""

import os
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent)]

from soak import run  # noqa: E402

SEED = int(os.environ.get("TIDELOG_SOAK_SEED", "1"))


@pytest.mark.faults
@pytest.mark.parametrize(("kind", "transactions"), [("calm", 304), ("kills", 304)])
def test_each_committed_transaction_is_seen_once_and_no_aborted_one(
    kind: str, transactions: int
) -> None:
    result = run("tidelog", kind, transactions, SEED)
    assert result.wrong == []
    assert len(result.ended) == transactions
