"""Avro's own checker as an oracle: of thousands of random pairs of schemas ours says what Apache Avro's says.

The jars come with Maven on first use and stay in `.peers/`; without Maven and a JDK this is skipped.
"""

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tidelog.schemas.errors import InvalidSchema
from tidelog.schemas.formats.avro import AvroSchema, parse

pytestmark = pytest.mark.compat

SOURCES = Path(__file__).parent / "avro"
PEERS = Path(__file__).parents[2] / ".peers" / "java" / "avro"
PAIRS = 1_500

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
NEAR = {
    "boolean": ["int"],
    "int": ["long", "float", "double", "string"],
    "long": ["float", "double", "int"],
    "float": ["double", "int"],
    "double": ["float"],
    "string": ["bytes"],
    "bytes": ["string"],
}
FIELDS = "fghij"


class Maker:
    """Makes a random schema."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names: list[str] = []
        self.count = 0

    def type(self, depth: int = 0) -> Any:
        choice = self.rng.random()
        if depth > 3 or choice < 0.4:
            if self.names and self.rng.random() < 0.25:
                return self.rng.choice(self.names)
            return self.rng.choice(PRIMITIVES)
        if choice < 0.5:
            return {"type": "array", "items": self.type(depth + 1)}
        if choice < 0.58:
            return {"type": "map", "values": self.type(depth + 1)}
        if choice < 0.72:
            some = [self.type(depth + 2) for _ in range(self.rng.randint(1, 3))]
            return distinct([each for each in some if not isinstance(each, list)])
        return self.named(depth)

    def named(self, depth: int) -> dict[str, Any]:
        kind = self.rng.choice(["record", "record", "record", "enum", "fixed"])
        made: dict[str, Any] = {"type": kind, "name": f"N{self.count}"}
        made["namespace"] = self.rng.choice(["z", "z", "a", "b.c"])
        self.count += 1
        if self.rng.random() < 0.2:
            made["aliases"] = [self.rng.choice(["N0", "N1", "a.N1", "z.N2"])]
        self.names.append(f"{made['namespace']}.{made['name']}")
        if kind == "enum":
            made["symbols"] = self.rng.sample("ABCD", self.rng.randint(1, 4))
            if self.rng.random() < 0.3:
                made["default"] = made["symbols"][0]
        elif kind == "fixed":
            made["size"] = self.rng.choice([1, 2, 4])
        else:
            names = self.rng.sample(FIELDS, self.rng.randint(0, 4))
            made["fields"] = [self.field(name, depth) for name in names]
        return made

    def field(self, name: str, depth: int) -> dict[str, Any]:
        type = self.type(depth + 1)
        made: dict[str, Any] = {"name": name, "type": type}
        if self.rng.random() < 0.5:
            if type in ("int", "long", "float", "double"):
                made["default"] = 1
            elif type == "string":
                made["default"] = "x"
            elif isinstance(type, list) and type[:1] == ["null"]:
                made["default"] = None
        if self.rng.random() < 0.1:
            made["aliases"] = [self.rng.choice(FIELDS)]
        return made


class Changer:
    """Makes a schema that is near another."""

    def __init__(self, rng: random.Random, often: float) -> None:
        self.rng = rng
        self.often = often

    def now(self, factor: float = 1.0) -> bool:
        return self.rng.random() < self.often * factor

    def change(self, given: Any, in_union: bool = False) -> Any:
        if isinstance(given, str):
            return self.rng.choice(NEAR[given]) if given in NEAR and self.now() else given
        if isinstance(given, list):
            return self.union(given)
        made = dict(given)
        if self.now(0.3) and not in_union:
            return ["null", self.change(made, True)]
        match made["type"]:
            case "array":
                made["items"] = self.change(made["items"])
            case "map":
                made["values"] = self.change(made["values"])
            case "enum":
                self.enum(made)
            case "fixed" if self.now():
                made["size"] = self.rng.choice([1, 2, 4])
            case "record":
                made["fields"] = self.fields(made["fields"])
        return made

    def union(self, given: list[Any]) -> list[Any]:
        made = [self.change(each, True) for each in given]
        if self.now():
            self.rng.shuffle(made)
        if self.now():
            made = [each for each in made if self.rng.random() < 0.8]
        return distinct([*made, "null"] if self.now() else made)

    def enum(self, made: dict[str, Any]) -> None:
        if self.now():
            made["symbols"] = list(dict.fromkeys([*made["symbols"], self.rng.choice("ABCD")]))
        if self.now() and len(made["symbols"]) > 1:
            made["symbols"] = made["symbols"][1:]
        if made.get("default") not in made["symbols"]:
            made.pop("default", None)

    def fields(self, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
        made = []
        for each in given:
            if self.now(0.4):
                continue
            other = {**each, "type": self.change(each["type"])}
            if other["type"] != each["type"]:
                other.pop("default", None)
            if self.now(0.3):
                other |= {"name": f"{each['name']}2", "aliases": [each["name"]]}
            made.append(other)
        if self.now():
            added: dict[str, Any] = {"name": "new", "type": "int"}
            made.append({**added, "default": 1} if self.rng.random() < 0.6 else added)
        if self.now():
            self.rng.shuffle(made)
        return made


def distinct(branches: list[Any]) -> list[Any]:
    """A legal union: each type once."""
    found: dict[str, Any] = {}
    for each in branches:
        kind = each if isinstance(each, str) else each["type"]
        if kind in ("record", "enum", "fixed"):
            kind = f"{each['namespace']}.{each['name']}"
        found.setdefault(kind, each)
    return list(found.values())


def pair(rng: random.Random) -> tuple[str, str]:
    writer = Maker(rng).type()
    if rng.random() < 0.15:
        reader = Maker(rng).type()
    else:
        reader = Changer(rng, rng.choice([0.1, 0.2, 0.4])).change(writer)
    return json.dumps(reader), json.dumps(writer)


def classpath() -> Path:
    """A folder with Avro's jars and the compiled oracle."""
    if not all(shutil.which(each) for each in ("mvn", "java", "javac")):
        pytest.skip("Maven or a JDK is not installed")
    if not (PEERS / "complete").exists():
        fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={PEERS}"]
        done = subprocess.run(fetch, cwd=SOURCES, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"Maven could not fetch Avro: {done.stdout[-300:]}")
        (PEERS / "complete").touch()
    compile_ = ["javac", "-cp", f"{PEERS}/*", "-d", str(PEERS), str(SOURCES / "Oracle.java")]
    subprocess.run(compile_, check=True, capture_output=True)
    return PEERS


def understood(text: str) -> AvroSchema | None:
    try:
        return parse(text)
    except InvalidSchema:
        return None


def test_ours_says_what_avro_says() -> None:
    place = classpath()
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    pairs = [pair(rng) for _ in range(PAIRS)]
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{place}:{place}/*", "Oracle"]
    given = "".join(f"{reader}\t{writer}\n" for reader, writer in pairs)
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    compared = {"yes": 0, "no": 0}
    for (reader, writer), line in zip(pairs, done.stdout.splitlines(), strict=True):
        verdict, reader_text, writer_text = line.split("\t")
        if verdict == "refused":
            continue  # not legal, or a reader's alias that fits two of the writer's fields: it gives up on those
        new, old = understood(reader), understood(writer)
        assert new is not None, (seed, reader)
        assert old is not None, (seed, writer)
        assert (new.canonical, old.canonical) == (reader_text, writer_text), seed
        reasons = new.cannot_read(old, ("new", "old"))
        assert bool(reasons) == (verdict == "no"), (seed, reader, writer, verdict, reasons)
        compared[verdict] += 1
    assert min(compared.values()) > PAIRS // 20, compared
