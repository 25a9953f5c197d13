"""Writes the source of `encode(msg, out)` for one struct at one version.

Version tests, compactness and nullability are settled here, once; neighbouring fixed-width fields become one
`struct` call.  With `steps` it is a generator that stops every so often: an answer may be so large that others must have
their turn while it is laid out.
"""

from collections.abc import Callable, Iterator
from struct import pack
from typing import Any

from tidelog.kernel import write_uvarint

from .schema import Field, Struct, Wire, element_of, struct_of, wire_of
from .source import Source

_ELEMENTS_A_STEP = 1000
"""About a millisecond."""


def compile_encoder(
    cls: type[Struct], version: int, flexible: bool
) -> Callable[[Any, bytearray], None]:
    """A function that appends a `cls` in the layout of `version` to a bytearray."""
    source = _Encoder(version, flexible)
    source.names |= {"write_uvarint": write_uvarint, "pack": pack}
    source.struct(cls, "msg")
    source.put("return None")
    return source.compile("def encode(msg, out):", f"encode {cls.__qualname__}")


def compile_stepwise_encoder(
    cls: type[Struct], version: int, flexible: bool
) -> Callable[[Any, bytearray], Iterator[None]]:
    """As `compile_encoder`, but it yields after every so many elements."""
    source = _Encoder(version, flexible)
    source.names |= {"write_uvarint": write_uvarint, "pack": pack}
    source.steps = True
    source.put(f"left = {_ELEMENTS_A_STEP}")
    source.struct(cls, "msg")
    source.put("if False: yield")  # a generator even where there is no array
    return source.compile("def encode(msg, out):", f"encode {cls.__qualname__} in steps")


class _Encoder(Source):
    steps = False

    def struct(self, cls: type[Struct], at: str) -> None:
        plain, tagged = self.split(cls)
        run: list[tuple[str, str]] = []
        for name, spec in plain.items():
            value = f"{at}.{name}"
            wire = wire_of(spec.hint)
            if wire and wire.code:
                run.append((wire.code, f"{value}.bytes" if wire.name == "uuid" else value))
                continue
            self._flush(run)
            self._value(spec.hint, value, self.version in spec.nullable)
        self._flush(run)
        if self.flexible:
            self._tags(tagged, at)

    def _flush(self, run: list[tuple[str, str]]) -> None:
        """Write the fixed-width fields collected so far with one call."""
        if run:
            packer, _ = self.packer("".join(code for code, _ in run))
            self.put(f"out += {packer}.pack({', '.join(value for _, value in run)})")
            run.clear()

    def _value(self, hint: Any, value: str, nullable: bool) -> None:
        element, struct, wire = element_of(hint), struct_of(hint), wire_of(hint)
        if element is not None:
            self._array(element, value, nullable)
        elif struct is not None:
            self._nullable_struct(struct, value) if nullable else self.struct(struct, value)
        elif wire is not None:
            self._primitive(wire, value, nullable)

    def _array(self, element: Any, value: str, nullable: bool) -> None:
        items = self.fresh("items")
        self.put(f"{items} = {value}")
        self._length(items, nullable, "i")
        wire, item = wire_of(element), self.fresh("item")
        if wire and wire.code and wire.name != "uuid":
            self.put(f"if {items}: out += pack(f'>{{len({items})}}{wire.code}', *{items})")
            return
        with self.block(f"for {item} in {items} or ():" if nullable else f"for {item} in {items}:"):
            self._value(element, item, False)
            if self.steps:
                self.put("left -= 1")
                with self.block("if left < 0:"):
                    self.put(f"left = {_ELEMENTS_A_STEP}", "yield")

    def _nullable_struct(self, struct: type[Struct], value: str) -> None:
        # A nullable struct is led by one byte: -1 for null, 1 for what follows (KIP-893).
        with self.block(f"if {value} is None:"):
            self.put("out.append(255)")
        with self.block("else:"):
            self.put("out.append(1)")
            self.struct(struct, value)

    def _primitive(self, wire: Wire, value: str, nullable: bool) -> None:
        if wire.name == "uuid":
            self.put(f"out += {value}.bytes")
        elif wire.code:
            packer, _ = self.packer(wire.code)
            self.put(f"out += {packer}.pack({value})")
        else:
            raw, is_text = self.fresh("raw"), wire.name == "string"
            self.put(f"{raw} = {value}")
            if is_text:
                null_check = f"if {raw} is not None: " if nullable else ""
                self.put(f"{null_check}{raw} = {raw}.encode()")
            self._length(raw, nullable, "h" if is_text else "i")
            self.put(f"if {raw}: out += {raw}")

    def _length(self, value: str, nullable: bool, code: str) -> None:
        if self.flexible:
            n = self.fresh("n")
            size = f"len({value}) + 1"
            self.put(f"{n} = 0 if {value} is None else {size}" if nullable else f"{n} = {size}")
            self.put(f"if {n} < 128: out.append({n})", f"else: write_uvarint(out, {n})")
        else:
            packer, _ = self.packer(code)
            size = f"-1 if {value} is None else len({value})" if nullable else f"len({value})"
            self.put(f"out += {packer}.pack({size})")

    def _tags(self, tagged: dict[str, Field], at: str) -> None:
        """Tagged fields are written only where they differ from their default, in order of their tags."""
        if not tagged:
            self.put("out.append(0)")
            return
        tags, outer = self.fresh("tags"), self.fresh("outer")
        self.put(f"{tags} = []")
        for name, spec in tagged.items():
            with self.block(f"if {self._differs(spec, f'{at}.{name}')}:"):
                self.put(f"{outer}, out = out, bytearray()")
                self._value(spec.hint, f"{at}.{name}", self.version in spec.nullable)
                self.put(f"{tags}.append(({spec.tag}, out)); out = {outer}")
        with self.block(f"if {tags}:"):
            self.put(f"write_uvarint(out, len({tags}))")
            with self.block(f"for tag, body in {tags}:"):
                self.put("write_uvarint(out, tag); write_uvarint(out, len(body)); out += body")
        self.put("else: out.append(0)")

    def _differs(self, spec: Field, value: str) -> str:
        """An expression that is true where a field is not its default, without a call in the usual case."""
        if spec.factory is None:
            default = self.const("default", spec.default)
            return f"{value} is not {default} and {value} != {default}"
        struct = struct_of(spec.hint)
        if struct is None:
            return f"{value} is None or {value}"  # a list; an empty one is the default
        inner = (self._differs(f, f"{value}.{name}") for name, f in struct.__fields__.items())
        return " or ".join([f"{value} is None", *inner])
