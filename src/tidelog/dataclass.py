"""`dataclass`, as the standard library has it, with its functions made when they are needed.

    from tidelog.dataclass import dataclass

The standard library compiles six functions for a frozen class while its module is imported, which takes longer than
importing a module does, and a broker has some sixty such classes before it is ready.  Here the standard library finds the
fields and makes the slots; `__init__` is compiled when the first object is made; comparing, hashing and printing
are functions that all classes share.  What comes out is a dataclass to everybody: `fields`, `replace`, `asdict`,
`pickle`, `copy` and `match` know it.

Absent: `order`, `unsafe_hash`, `InitVar`, and deriving a frozen class of the standard library's from one of these.
"""

from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from dataclasses import MISSING, FrozenInstanceError, fields
    from dataclasses import dataclass as _standard

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, eq=True):
        """Make a class a dataclass."""
        if cls is None:
            return lambda cls: _make(cls, frozen, slots, kw_only, eq)
        return _make(cls, frozen, slots, kw_only, eq)

    def _make(cls, frozen, slots, kw_only, eq):
        written = {name for name, value in vars(cls).items() if value is not None}
        if cls.__doc__ is None:
            cls.__doc__ = (
                cls.__name__
            )  # else the standard library writes the signature there, which is slow
        cls = _standard(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
        given = {"__init__": _compiled_later(cls, frozen), "__repr__": _repr}
        if eq:
            given |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
        if frozen:
            given |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if frozen and slots:
            given |= {"__getstate__": _state, "__setstate__": _set_state}
        for name, function in given.items():
            if name not in written:
                setattr(cls, name, function)
        return cls

    def _compiled_later(cls, frozen):
        def __init__(self, *args, **kwargs):
            init = cls.__init__ = _compile_init(cls, frozen)
            init(self, *args, **kwargs)

        return __init__

    def _compile_init(cls, frozen):
        space = {"made_if": _made_if, "put": object.__setattr__, "absent": MISSING}
        positional, by_keyword, body = [], [], []
        for each in fields(cls):
            name = each.name
            value = name
            if each.default_factory is not MISSING:
                space[f"make_{name}"] = each.default_factory
                value = f"made_if(absent, {name}, make_{name})" if each.init else f"make_{name}()"
                parameter = f"{name}=absent"
            elif each.default is not MISSING:
                space[f"default_{name}"] = each.default
                value = name if each.init else f"default_{name}"
                parameter = f"{name}=default_{name}"
            else:
                parameter = name
            if each.init:
                (by_keyword if each.kw_only else positional).append(parameter)
            elif value == name:
                continue  # whoever declared it sets it
            body.append(f"put(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            body.append("self.__post_init__()")
        star = ["*"] if by_keyword else []
        head = f"def __init__({', '.join(['self', *positional, *star, *by_keyword])}):"
        exec("\n    ".join([head, *(body or ["pass"])]), space)
        made = space["__init__"]
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        return made

    def _made_if(absent, value, make):
        return make() if value is absent else value

    @cache
    def _compared(cls):
        return _getter([each.name for each in fields(cls) if each.compare])

    @cache
    def _hashed(cls):
        wanted = (
            each.name for each in fields(cls) if (each.compare if each.hash is None else each.hash)
        )
        return _getter(list(wanted))

    def _getter(names):
        if len(names) > 1:
            return attrgetter(*names)
        return (lambda self: (getattr(self, names[0]),)) if names else (lambda self: ())

    def _equal(self, other):
        if other.__class__ is not self.__class__:
            return NotImplemented
        values = _compared(self.__class__)
        return values(self) == values(other)

    def _hash(self):
        return hash(_hashed(self.__class__)(self))

    def _repr(self):
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
        return f"{self.__class__.__qualname__}({', '.join(shown)})"

    def _refuse_to_set(self, name, value):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_to_delete(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self):
        return [getattr(self, each.name) for each in fields(self)]

    def _set_state(self, state):
        for each, value in zip(fields(self), state, strict=True):
            object.__setattr__(self, each.name, value)
