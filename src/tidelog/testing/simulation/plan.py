"""What a run is like: how many brokers and clients, for how long, and how bad it gets."""

from dataclasses import field
from random import Random
from typing import Any

from tidelog.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The numbers of one run; by default the seed chooses them."""

    brokers: int = 3
    partitions: int = 2
    producers: int = 2
    consumers: int = 2
    seconds: float = 12.0
    """How long things go wrong."""
    calm_s: float = 1.0
    """How long, on average, between two faults."""
    transactions: bool = False
    """Whether there are transactional clients, too."""
    late: bool = False
    """Whether there is a group that begins where the partitions end, too."""
    weak: bool = False
    """Whether there is a producer with acks=1, too."""
    unclean: bool = False
    """Whether a replica that lacks committed records may be elected, should there be no other."""
    min_insync: int = 2
    log_dirs: int = 1
    """Of each broker."""
    racks: bool = False
    """Whether consumers read from the replica that is nearest."""
    cleaner: bool = False
    """Whether what groups commit is compacted."""
    sync_every_write: bool = False
    power_cuts: str = "one"
    """never; one, that is one broker at a time until all replicas are in sync again; any"""
    fresh: bool = True
    """Whether nobody may answer as a leader who is one no longer; else that is judged only when all is mended."""
    without: str = ""
    """Faults that do not happen, with commas."""
    settings: dict[str, str] = field(default_factory=dict)
    """Of the brokers, over those of the simulation."""

    name: str = "written"
    """Which kind of plan it is, for the figures at the end."""

    @classmethod
    def by_seed(cls, seed: int, kind: str = "mixed") -> "Plan":
        """The plan of a seed: a short one with many faults, a long one, or in `mixed` one of both."""
        chance = Random(f"plan {seed}")
        if kind == "mixed":
            kind = "short" if Random(f"mix {seed}").random() < _SHORT else "long"
        return _short(chance) if kind == "short" else _long(chance)


_SHORT = 0.6
"""How many plans of the mix are short: they find more in the same time, and the others find what takes longer."""


_WITHOUT = ""
_FRESH = False
"""A leader that was deposed although its session lives may not have heard of it yet, and answers."""
_SEVERAL_DIRECTORIES = 0.3


def _long(chance: Random) -> Plan:
    brokers = chance.choices((1, 3, 4), (1, 7, 2))[0]
    synced = brokers == 1 or chance.random() < 0.3
    transactions = chance.random() < 0.25
    return Plan(
        name="long",
        brokers=brokers,
        partitions=chance.choice((1, 2, 3)),
        producers=chance.choice((1, 2, 3)),
        consumers=chance.choice((1, 2, 3)),
        seconds=chance.choice((6.0, 8.0, 12.0) if transactions else (6.0, 12.0, 20.0)),
        calm_s=chance.choice((0.3, 1.0, 2.0)),
        transactions=transactions,
        late=chance.random() < 0.3,
        weak=chance.random() < 0.15,
        sync_every_write=synced,
        without=_WITHOUT,
        fresh=_FRESH,
        **_variety(chance, synced=synced),
    )


def _short(chance: Random) -> Plan:
    synced = chance.random() < 0.2
    return Plan(
        name="short",
        brokers=3,
        partitions=1,
        unclean=chance.random() < 0.05,
        producers=chance.choice((1, 2)),
        consumers=1,
        seconds=6.0,
        calm_s=0.3,
        late=chance.random() < 0.2,
        weak=chance.random() < 0.15,
        sync_every_write=synced,
        without=_WITHOUT,
        fresh=_FRESH,
        **_variety(chance, synced=synced),
    )


def _variety(chance: Random, *, synced: bool) -> dict[str, Any]:
    """What a few plans have and most have not."""
    few_in_sync = chance.random() < 0.1
    power_cuts = chance.choice(("never", "any" if synced else "one"))
    return {
        "log_dirs": 2 if chance.random() < _SEVERAL_DIRECTORIES else 1,
        "racks": chance.random() < 0.1,
        "cleaner": chance.random() < 0.15,
        "min_insync": 1 if few_in_sync else 2,
        # With one replica in sync a power cut may take the only copy of what was not synced.
        "power_cuts": "never" if few_in_sync and not synced else power_cuts,
    }
