"""Writes the source of `decode(buf, pos)` for one struct at one version.

A length is checked against the bytes that are left before anything is made from it, so a forged one costs
nothing; and the arrays and tags of a request against what it may have of elements (`Request.most`), so that a true one costs
little.  What runs off the end raises `IndexError` or `struct.error`; `codec.decode` turns both, and bad
UTF-8, into `ProtocolError`.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import calcsize, unpack_from
from typing import Any
from uuid import UUID

from tidelog.errors import ProtocolError
from tidelog.kernel import read_uvarint

from .schema import Field, Request, Struct, Wire, element_of, struct_of, wire_of
from .source import Source


def compile_decoder(
    cls: type[Struct], version: int, flexible: bool
) -> Callable[[Any, int], tuple[Any, int]]:
    """A function that reads a `cls` in the layout of `version` and returns it with the position after it."""
    source = _Decoder(version, flexible)
    source.names |= {
        "read_uvarint": read_uvarint,
        "unpack_from": unpack_from,
        "uuid_of": uuid_of,
        "new": object.__new__,
        "ProtocolError": ProtocolError,
    }
    source.put("end = len(buf)")
    if issubclass(cls, Request):
        source.most = cls.most
        source.put(f"left = {cls.most}")
    source.struct(cls, "msg")
    source.put("return msg, pos")
    return source.compile("def decode(buf, pos):", f"decode {cls.__qualname__}")


@lru_cache(maxsize=4096)
def uuid_of(raw: bytes) -> UUID:
    """The UUID of 16 bytes; a broker sees few of them, again and again."""
    return UUID(bytes=raw)


class _Decoder(Source):
    most: int | None = None
    """Elements that all arrays may have together; None for any number."""

    def struct(self, cls: type[Struct], at: str) -> None:
        plain, tagged = self.split(cls)
        self.put(f"{at} = new({self.const(cls.__name__, cls)})")
        for name, spec in cls.__fields__.items():
            if name not in plain:
                self.put(f"{at}.{name} = {self._default(spec)}")
        run: list[tuple[Wire, str]] = []
        for name, spec in plain.items():
            target = f"{at}.{name}"
            wire = wire_of(spec.hint)
            if wire and wire.code:
                run.append((wire, target))
                continue
            self._flush(run)
            self._value(spec.hint, target, self.version in spec.nullable)
        self._flush(run)
        if self.flexible:
            self._tags(tagged, at)

    def _default(self, spec: Field) -> str:
        if spec.factory is list:
            return "[]"
        if spec.factory is not None:
            return f"{self.const('make', spec.factory)}()"
        if isinstance(spec.default, int | float | str | bytes | None):
            return repr(spec.default)
        return self.const("default", spec.default)

    def _flush(self, run: list[tuple[Wire, str]]) -> None:
        """Read the fixed-width fields collected so far with one call."""
        if run:
            packer, size = self.packer("".join(wire.code for wire, _ in run))
            targets = ", ".join(target for _, target in run) + ("," if len(run) == 1 else "")
            self.put(f"{targets} = {packer}.unpack_from(buf, pos)", f"pos += {size}")
            self.put(*(f"{at} = uuid_of({at})" for wire, at in run if wire.name == "uuid"))
            run.clear()

    def _value(self, hint: Any, target: str, nullable: bool) -> None:
        element, struct, wire = element_of(hint), struct_of(hint), wire_of(hint)
        if element is not None:
            self._array(element, target, nullable)
        elif struct is not None:
            self._struct_value(struct, target, nullable)
        elif wire is not None and wire.code:
            self._flush([(wire, target)])
        elif wire is not None:
            self._sized(wire, target, nullable)

    def _array(self, element: Any, target: str, nullable: bool) -> None:
        n = self._length("i", nullable, self._least_bytes(element))
        self._counted(n)
        items, item = self.fresh("items"), self.fresh("item")
        self.put(f"{items} = None if {n} < 0 else []" if nullable else f"{items} = []")
        wire = wire_of(element)
        if wire and wire.code and wire.name != "uuid":
            with self.block(f"if {n} > 0:"):
                self.put(f"{items} += unpack_from(f'>{{{n}}}{wire.code}', buf, pos)")
                self.put(f"pos += {n} * {self._least_bytes(element)}")
        else:
            with self.block(f"for _ in range({n}):"):
                self._value(element, item, False)
                self.put(f"{items}.append({item})")
        self.put(f"{target} = {items}")

    def _counted(self, n: str) -> None:
        """So many elements more, of an array or of tags."""
        if self.most is not None:
            self.put(f"if {n} > 0: left -= {n}")  # null is -1, and makes no room for others
            with self.block("if left < 0:"):
                self.put(f"raise ProtocolError('more than {self.most} elements in one request')")

    def _struct_value(self, struct: type[Struct], target: str, nullable: bool) -> None:
        made = self.fresh("made")
        if nullable:
            self.put("pos += 1")
            with self.block("if buf[pos - 1] > 127:"):
                self.put(f"{made} = None")
            with self.block("else:"):
                self.struct(struct, made)
        else:
            self.struct(struct, made)
        self.put(f"{target} = {made}")

    def _sized(self, wire: Wire, target: str, nullable: bool) -> None:
        """A string, bytes or records: a length and as many bytes."""
        n = self._length("h" if wire.name == "string" else "i", nullable)
        piece = f"buf[pos : pos + {n}]"
        made = {
            "string": f"str({piece}, 'utf-8')",
            "bytes": f"bytes({piece})",  # a copy: the frame's buffer is used again
            "records": f"memoryview(buf)[pos : pos + {n}]",
        }[wire.name]
        if nullable:
            self.put(f"if {n} < 0: {target} = None", f"else: {target} = {made}; pos += {n}")
        else:
            self.put(f"{target} = {made}", f"pos += {n}")

    def _length(self, code: str, nullable: bool, each: int = 1) -> str:
        """Read a length of things that take `each` bytes at least; what is left must be able to hold them."""
        n = self.fresh("n")
        if self.flexible:
            self.put(f"{n} = buf[pos]", "pos += 1")
            self.put(f"if {n} > 127: {n}, pos = read_uvarint(buf, pos - 1)", f"{n} -= 1")
        else:
            packer, size = self.packer(code)
            self.put(f"({n},) = {packer}.unpack_from(buf, pos)", f"pos += {size}")
        needed = n if each == 1 else f"{n} * {each}"
        with self.block(f"if {n} < {-1 if nullable else 0} or {needed} > end - pos:"):
            self.put(f"raise ProtocolError(f'a length of {{{n}}} with {{end - pos}} bytes left')")
        return n

    def _least_bytes(self, hint: Any) -> int:
        """How many bytes a value of this type takes at least."""
        struct, wire = struct_of(hint), wire_of(hint)
        if struct is not None:
            plain, _ = self.split(struct)
            sizes = (
                1 if struct_of(f.hint) and self.version in f.nullable else self._least_bytes(f.hint)
                for f in plain.values()
            )
            return max(1, sum(sizes) + self.flexible)
        if wire is not None and wire.code:
            return calcsize(">" + wire.code)
        if self.flexible:
            return 1
        return 2 if wire is not None and wire.name == "string" else 4

    def _tags(self, tagged: dict[str, Field], at: str) -> None:
        n, tag, stop = self.fresh("n"), self.fresh("tag"), self.fresh("stop")
        self.put(f"{n} = buf[pos]", "pos += 1")
        with self.block(f"if {n}:"):
            self.put(f"if {n} > 127: {n}, pos = read_uvarint(buf, pos - 1)")
            self._counted(n)
            with self.block(f"for _ in range({n}):"):
                self.put(f"{tag}, pos = read_uvarint(buf, pos)")
                self.put(f"{stop}, pos = read_uvarint(buf, pos)", f"{stop} += pos")
                with self.block(f"if {stop} > end:"):
                    self.put(f"raise ProtocolError(f'tag {{{tag}}} ends after the message')")
                for number, (name, spec) in enumerate(tagged.items()):
                    with self.block(f"{'elif' if number else 'if'} {tag} == {spec.tag}:"):
                        self._value(spec.hint, f"{at}.{name}", self.version in spec.nullable)
                        with self.block(f"if pos != {stop}:"):
                            self.put(f"raise ProtocolError('tag {spec.tag} has a wrong size')")
                self.put(f"pos = {stop}")  # what we do not know, we skip
