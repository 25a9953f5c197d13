"""Random instances of any message, for the oracles and for the properties that hold of every message."""

import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.protocol.schema import Message, Struct, element_of, struct_of, wire_of

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXTS = ("", "a", "orders", "Größe", "日本", "x" * 127, "x" * 128, "y" * 300)
LATEST_TIME_MS = 4_000_000_000_000  # kio turns times into datetimes, which end


class Maker:
    """Makes messages; fields absent from the version keep their defaults, as after decoding."""

    def __init__(self, seed: str, version: int) -> None:
        self.rng = random.Random(seed)
        self.version = version

    def make(self, cls: type[Struct]) -> Any:
        values = {
            name: self.field(name, spec.hint, self.version in spec.nullable)
            for name, spec in cls.__fields__.items()
            if self.version in spec.versions and (spec.tag is None or self.rng.random() < 0.5)
        }
        return cls(**values)

    def field(self, name: str, hint: Any, nullable: bool) -> Any:
        if nullable and self.rng.random() < 0.3:
            return None
        element, struct = element_of(hint), struct_of(hint)
        if element is not None:
            count = self.rng.choice((0, 1, 2, 3))
            return [self.field(name, element, False) for _ in range(count)]
        if struct is not None:
            return self.make(struct)
        wire = wire_of(hint)
        assert wire is not None
        return self.primitive(name, wire.name)

    def primitive(self, name: str, kind: str) -> Any:
        rng = self.rng
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "string":
            return rng.choice(TEXTS)
        if kind in ("bytes", "records"):
            return rng.randbytes(rng.choice((0, 1, 40, 200)))
        if kind == "uuid":
            return uuid.UUID(bytes=rng.randbytes(16))
        if kind == "float64":
            return rng.uniform(-1e9, 1e9)
        return self.integer(name, kind)

    def integer(self, name: str, kind: str) -> int:
        rng = self.rng
        if name.endswith("error_code"):
            return rng.randrange(-1, 100)
        if kind == "uint16":
            return rng.randrange(1 << 16)
        if kind == "int64" and ("time" in name or name.endswith("_ms")):
            return rng.randrange(LATEST_TIME_MS)
        top = 1 << BITS[kind] - 1
        return rng.choice((0, 1, -1, top - 1, -top, rng.randrange(-top, top)))


@pytest.fixture(scope="session")
def random_message() -> Callable[[type[Message], int, int], Any]:
    """A random instance of a message in a version; the same number gives the same instance."""

    def make(cls: type[Message], version: int, number: int) -> Any:
        return Maker(f"{cls.__name__} {version} {number}", version).make(cls)

    return make
