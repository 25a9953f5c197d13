"""Source code of one generated function: lines, the constants it names, and its compilation.

`encoder.py` and `decoder.py` write with it.  What was generated can be read in a debugger and in tracebacks.
"""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct as Packer
from typing import Any

from .schema import Field, Struct


class Source:
    """Collects the body of one function for a struct at a version."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 1
        self._count = 0

    def put(self, *lines: str) -> None:
        self._lines += ["    " * self._depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent what is put inside under `head`."""
        self.put(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A local name not used before."""
        self._count += 1
        return f"{stem}{self._count}"

    def const(self, stem: str, value: Any) -> str:
        """A global of the generated function that holds `value`."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def packer(self, codes: str) -> tuple[str, int]:
        """The name of a big-endian `struct.Struct` for `codes`, and its size."""
        name = "s_" + codes.replace("?", "t")
        packer = self.names.setdefault(name, Packer(">" + codes))
        return name, packer.size

    def split(self, cls: type[Struct]) -> tuple[dict[str, Field], dict[str, Field]]:
        """The fields that this version carries: those in order, and those by tag."""
        carried = {n: f for n, f in cls.__fields__.items() if self.version in f.versions}
        plain = {n: f for n, f in carried.items() if f.tag is None}
        tagged = {n: f for n, f in carried.items() if f.tag is not None}
        return plain, dict(sorted(tagged.items(), key=lambda item: item[1].tag or 0))

    def compile(self, head: str, title: str) -> Callable[..., Any]:
        """The function `head` with the lines put so far as its body."""
        source = "\n".join([head, *self._lines]) + "\n"
        filename = f"<{title} v{self.version}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        exec(compile(source, filename, "exec"), self.names)
        made: Callable[..., Any] = self.names[head[4 : head.index("(")]]
        return made
