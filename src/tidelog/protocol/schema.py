"""Vocabulary in which Kafka's messages are declared.

A message is one class for all its versions; a field says in which of them it is on the wire.  Where it is
absent it keeps its default, so that handlers read one shape whatever the client speaks:

    class HeartbeatRequest(Request, api_key=12, versions="0-4", flexible="4+"):
        group_id: string = ""
        group_instance_id: string | None = field("3+", default=None)

    class HeartbeatResponse(Response, to=HeartbeatRequest):
        throttle_time_ms: int32 = field("1+", default=0)
        error_code: int16 = 0

A plain value is a field of every version.  A response takes its key and versions from its request.  Structs
are mutable, compare by value and take their fields by keyword only.  Nothing here knows how a field is
encoded: that is `encoder.py` and `decoder.py`, which read `__fields__`.
"""

import sys
from collections.abc import Callable
from functools import cache, lru_cache
from operator import attrgetter
from typing import Annotated, Any, ClassVar, NamedTuple, dataclass_transform, get_args
from uuid import UUID

if sys.version_info >= (3, 14):
    import annotationlib

ZERO_UUID = UUID(int=0)

_LAST = 32767  # versions are int16
_NONE_TYPE = type(None)


class Wire(NamedTuple):
    """How a Python value lies on the wire: a `struct` code, or only a name where it has a length."""

    name: str
    code: str = ""


boolean = Annotated[bool, Wire("bool", "?")]
int8 = Annotated[int, Wire("int8", "b")]
int16 = Annotated[int, Wire("int16", "h")]
uint16 = Annotated[int, Wire("uint16", "H")]
int32 = Annotated[int, Wire("int32", "i")]
int64 = Annotated[int, Wire("int64", "q")]
float64 = Annotated[float, Wire("float64", "d")]
uuid = Annotated[UUID, Wire("uuid", "16s")]
string = Annotated[str, Wire("string")]
octets = Annotated[bytes, Wire("bytes")]
batches = Annotated[bytes | bytearray | memoryview, Wire("records")]
"""Record batches: decoded to a slice of the frame, not copied, so it lives as long as the frame's buffer."""


class Versions(NamedTuple):
    """An inclusive range of versions, written as Kafka writes it: "3", "0-14", "9+", "none"."""

    first: int
    last: int

    @staticmethod
    @lru_cache(maxsize=256)
    def parse(text: str) -> "Versions":
        if text == "none":
            return Versions(1, 0)
        if text.endswith("+"):
            return Versions(int(text[:-1]), _LAST)
        first, _, last = text.partition("-")
        return Versions(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        if self.first > self.last:
            return "none"
        if self.last == _LAST:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


_ALWAYS = Versions(0, _LAST)
_NEVER = Versions(1, 0)


class Field(NamedTuple):
    """One field: its type without `None`, where it is on the wire, and what it holds where it is not."""

    hint: Any
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any
    factory: Callable[[], Any] | None

    def make_default(self) -> Any:
        return self.factory() if self.factory else self.default


def field(
    versions: str = "0+",
    *,
    nullable: str | None = None,
    tag: int | None = None,
    default: Any = None,
    factory: Callable[[], Any] | None = None,
) -> Any:
    """Declare the versions that carry a field, and its default.

    A field typed `T | None` may be null in all its versions unless `nullable` says in which.  `factory` makes
    defaults that must not be shared (lists, structs).
    """
    null = _NEVER if nullable is None else Versions.parse(nullable)
    return Field(None, Versions.parse(versions), null, tag, default, factory)


def _annotations(space: dict[str, Any]) -> dict[str, Any]:
    if sys.version_info >= (3, 14):  # annotations are lazy there
        annotate = annotationlib.get_annotate_from_class_namespace(space)
        if annotate is None:
            return {}
        return annotationlib.call_annotate_function(annotate, annotationlib.Format.VALUE)
    found: dict[str, Any] = space.get("__annotations__", {})
    return found


def _declared(name: str, hint: Any, value: Any) -> Field:
    """Complete a field: a plain value becomes one, and `T | None` is split into T and its null versions."""
    spec = value
    if not isinstance(spec, Field):
        spec = Field(None, _ALWAYS, _NEVER, None, value, None)
    args = () if wire_of(hint) else get_args(hint)
    if _NONE_TYPE in args:
        (hint,) = (arg for arg in args if arg is not _NONE_TYPE)
        if spec.nullable is _NEVER:
            spec = spec._replace(nullable=spec.versions)
    elif spec.default is None and spec.factory is None:
        raise TypeError(f"{name} cannot be None, so it needs a default")
    return spec._replace(hint=hint)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class StructType(type):
    """Turns the annotations of a Struct into slots and into `__fields__`."""

    __fields__: dict[str, Field]

    def __new__(
        mcs, name: str, bases: tuple[type, ...], space: dict[str, Any], **facts: Any
    ) -> "StructType":
        own = {
            key: _declared(key, hint, space.pop(key, None))
            for key, hint in _annotations(space).items()
            if getattr(hint, "__origin__", None) is not ClassVar
        }
        space["__slots__"] = tuple(own)
        space["__fields__"] = own
        return super().__new__(mcs, name, bases, space, **facts)

    def __init__(
        cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **facts: Any
    ) -> None:
        super().__init__(name, bases, space)


class Struct(metaclass=StructType):
    """A run of fields.  Subclasses are slotted; their `__init__` is compiled when the first is made."""

    __fields__: ClassVar[dict[str, Field]]

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        cls.__init__ = _compile_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return bool(_values(type(self))(self) == _values(type(self))(other))

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__fields__)
        return f"{type(self).__name__}({inner})"


class Message(Struct):
    """A struct that stands alone: it has versions of its own, and from some version on is flexible (KIP-482)."""

    versions: ClassVar[Versions]
    flexible: ClassVar[Versions]

    def __init_subclass__(cls, *, versions: str = "", flexible: str = "none") -> None:
        super().__init_subclass__()
        if versions:
            cls.versions = Versions.parse(versions)
            cls.flexible = Versions.parse(flexible)


class Request(Message):
    """A message to a broker.  `response` is the class of its answer.

    It comes from a stranger, so what it can make the broker build is bounded: `most` says how many elements all its arrays
    may have together, which is far more than a client has use for.
    """

    api_key: ClassVar[int]
    response: ClassVar[type["Response"]]
    most: ClassVar[int]

    def __init_subclass__(
        cls, *, api_key: int = -1, versions: str = "", flexible: str = "none", most: int = 50_000
    ) -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.api_key = api_key
        cls.most = most


class Response(Message):
    """The answer to the request class given as `to`, from which it has its key and versions."""

    api_key: ClassVar[int]

    def __init_subclass__(cls, *, to: type[Request]) -> None:
        super().__init_subclass__()
        cls.api_key, cls.versions, cls.flexible = to.api_key, to.versions, to.flexible
        to.response = cls


def wire_of(hint: Any) -> Wire | None:
    """The wire type of a primitive; None for an array or a struct."""
    return hint.__metadata__[0] if hasattr(hint, "__metadata__") else None


def element_of(hint: Any) -> Any:
    """The element type of an array; None for anything else."""
    return get_args(hint)[0] if getattr(hint, "__origin__", None) is list else None


def struct_of(hint: Any) -> type[Struct] | None:
    """The struct class, if that is what the field holds."""
    return hint if isinstance(hint, type) and issubclass(hint, Struct) else None


@cache
def _values(cls: type[Struct]) -> Callable[[Any], Any]:
    names = tuple(cls.__fields__)
    return attrgetter(*names) if names else lambda _: ()


def _compile_init(cls: type[Struct]) -> Any:
    """The source of a plain keyword-only `__init__`; a generic loop over the fields is six times slower."""
    space: dict[str, Any] = {"missing": object()}
    params, body = [], []
    for name, spec in cls.__fields__.items():
        if spec.factory is not None:
            space[f"make_{name}"] = spec.factory
            params.append(f"{name}=missing")
            body.append(f"self.{name} = make_{name}() if {name} is missing else {name}")
        else:
            space[f"default_{name}"] = spec.default
            params.append(f"{name}=default_{name}")
            body.append(f"self.{name} = {name}")
    head = f"def __init__(self, *, {', '.join(params)}):" if params else "def __init__(self):"
    exec("\n    ".join([head, *(body or ["pass"])]), space)
    made = space["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made
