"""What a run is like: how many brokers and clients, for how long, and how bad it gets."""

from dataclasses import field
from random import Random

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
    sync_every_write: bool = False
    power_cuts: str = "one"
    """never; one, that is one broker at a time until all replicas are in sync again; any"""
    settings: dict[str, str] = field(default_factory=dict)
    """Of the brokers, over those of the simulation."""

    @classmethod
    def by_seed(cls, seed: int) -> "Plan":
        chance = Random(f"plan {seed}")
        brokers = chance.choices((1, 3, 4), (1, 7, 2))[0]
        synced = brokers == 1 or chance.random() < 0.3
        transactions = chance.random() < 0.25
        return cls(
            brokers=brokers,
            partitions=chance.choice((1, 2, 3)),
            producers=chance.choice((1, 2, 3)),
            consumers=chance.choice((1, 2, 3)),
            seconds=chance.choice((6.0, 8.0, 12.0) if transactions else (6.0, 12.0, 20.0)),
            calm_s=chance.choice((0.3, 1.0, 2.0)),
            transactions=transactions,
            sync_every_write=synced,
            power_cuts=chance.choice(("never", "any" if synced else "one")),
        )
