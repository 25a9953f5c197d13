"""One small request cannot stop a broker: no API holds the loop for long, takes much memory or fills the log.

`hostile_table.py` sends what is worst of each API, in the size of a few megabytes; `make fuzz` sends more of it.
"""

import os

import pytest
from hostile import AS_MANY_AS_FIT, DIFFERENT
from hostile_table import RULES, SETTINGS, WatchedBroker, table

pytestmark = pytest.mark.faults

LONG = "TIDELOG_FUZZ_SECONDS" in os.environ
LIMIT_BYTES = (10 if LONG else 2) << 20
OPEN = (AS_MANY_AS_FIT, DIFFERENT)
WITH_RULES = (DIFFERENT,)

MOST_HELD_S = 0.25
"""Of processor time, in one turn of the loop; a bystander waits as long."""
MOST_MEMORY_BYTES = 150 << 20
MOST_LOGGED_BYTES = 20_000


@pytest.mark.parametrize("rules", [False, True], ids=["open", "rules"])
def test_the_worst_of_every_api_is_bounded(rules: bool) -> None:
    with WatchedBroker(settings=SETTINGS | (RULES if rules else {})) as broker:
        kinds = ("",) if LONG else WITH_RULES if rules else OPEN
        costs = list(table(broker, LIMIT_BYTES, oldest=LONG, kinds=kinds))
        assert broker.process is not None
        assert broker.process.poll() is None, broker.log()[-5000:]
        assert "Traceback" not in broker.log()
    assert len({each.api.split()[0] for each in costs}) > 40, "all that have arrays"
    too_long = [each for each in costs if each.held_s > MOST_HELD_S]
    too_large = [each for each in costs if each.memory_bytes > MOST_MEMORY_BYTES]
    too_loud = [each for each in costs if each.logged_bytes > MOST_LOGGED_BYTES]
    assert not too_long, "\n".join(map(str, too_long))
    assert not too_large, "\n".join(map(str, too_large))
    assert not too_loud, "\n".join(map(str, too_loud))
    longest = max(costs, key=lambda each: each.held_s)
    largest = max(costs, key=lambda each: each.memory_bytes)
    print(f"{len(costs)} requests; longest turn: {longest}; most memory: {largest}")
