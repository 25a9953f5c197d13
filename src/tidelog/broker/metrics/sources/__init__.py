"""Where metrics come from, a file for each part of a broker.

A source has the families that it declares, and `collect(sight)`, which finds their values.  Adding a file adds its metrics:
to `/metrics`, and to the table in the guide.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

from tidelog.broker.metrics.families import Family, Found
from tidelog.broker.metrics.sight import Sight


def collect(sight: Sight) -> Iterator[Found]:
    """All metrics of a broker."""
    for source in sources():
        yield from source.collect(sight)


def sources() -> list[ModuleType]:
    """By name."""
    names = sorted(each.name for each in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{each}") for each in names]


def families(source: ModuleType) -> list[Family]:
    """Those that a source declares, in their order."""
    return [each for each in vars(source).values() if isinstance(each, Family)]
