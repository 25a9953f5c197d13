"""What is installed with tidelog: licences that oblige nobody, and versions that were tried."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]

FREE = re.compile(
    r"apache|\bMIT\b|\bBSD\b|\d-clause|\bISC\b|\bPSF\b|Python Software Foundation|MPL|Zlib|0BSD",
    re.IGNORECASE,
)
BINDING = re.compile(r"\b(A|L)?GPL|General Public", re.IGNORECASE)


def requirements() -> list[Requirement]:
    """By default and with every extra; one that stands for others of our own adds nothing."""
    listed = (*PROJECT["dependencies"], *(one for some in EXTRAS.values() for one in some))
    return [each for each in map(Requirement, listed) if each.name != PROJECT["name"]]


def installed_with(wanted: list[Requirement]) -> Iterator[str]:
    """Every distribution that these bring, each once; those for other systems are left out."""
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = list(wanted)
    while waiting:
        each = waiting.pop()
        name, extras = canonicalize_name(each.name), frozenset(each.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # for another system, or an extra of somebody else
        yield name
        for text in found.requires or ():
            inner = Requirement(text)
            environments = [{"extra": extra} for extra in ("", *extras)]
            if inner.marker is None or any(inner.marker.evaluate(one) for one in environments):
                waiting.append(inner)


def licence_of(name: str) -> str:
    """What a distribution says of itself: the expression, else the classifiers, else the first line of the field."""
    told = distribution(name).metadata
    classifiers = [each for each in told.get_all("Classifier", []) if each.startswith("License ::")]
    text = str(told.get("License") or "").strip().splitlines()
    return str(told.get("License-Expression") or " ".join(classifiers) or "".join(text[:1]))


def test_licences_oblige_nobody():
    names = sorted(set(installed_with(requirements())))
    assert {"cramjam", "google-crc32c", "fastavro", "uvicorn"} <= set(names)
    wrong = {
        name: licence
        for name in names
        if not FREE.search(licence := licence_of(name)) or BINDING.search(licence)
    }
    assert wrong == {}


def test_the_default_is_small():
    default = [Requirement(each) for each in PROJECT["dependencies"]]
    assert sorted(set(installed_with(default))) == ["cramjam", "google-crc32c", "uvloop"]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def test_every_dependency_has_a_lower_and_an_upper_version():
    for each in requirements():
        operators = {one.operator for one in each.specifier}
        assert {">=", "<"} <= operators, f"{each}: give it both"


def test_what_is_pinned_is_what_is_asked_for():
    pinned = pins()
    for each in requirements():
        name = canonicalize_name(each.name)
        assert name in pinned, f"{name} is not in constraints.txt; make constraints"
        assert each.specifier.contains(pinned[name]), f"{each} and constraints.txt disagree"
    assert "tidelog" not in pinned
    assert not [name for name, version in pinned.items() if "@" in version or "/" in version]
