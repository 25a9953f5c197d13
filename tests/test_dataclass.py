"""Our `dataclass` and the standard library's make classes that nobody can tell apart."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar

import pytest

from tidelog.dataclass import dataclass

FLAVOURS = [
    {},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"eq": False, "slots": True},
    {"frozen": True, "eq": False, "slots": True},
]


def declare(decorate: Callable[..., Any], flavour: dict[str, bool]) -> type[Any]:
    """The same class, made by one of the two."""

    class Point:
        kind: ClassVar[str] = "point"
        x: int
        y: int = 2
        secret: str = field(default="s", repr=False)
        tags: list[str] = field(default_factory=list, hash=False)
        note: str = field(default="", compare=False)
        fixed: int = field(default=7, init=False)
        own: dict[str, int] = field(default_factory=dict, init=False, hash=False)

    return decorate(**flavour)(Point)  # type: ignore[no-any-return]


@pytest.mark.parametrize("flavour", FLAVOURS, ids=str)
class TestAgainstTheStandardLibrary:
    def both(self, flavour: dict[str, bool]) -> tuple[type[Any], type[Any]]:
        return declare(dataclass, flavour), declare(dataclasses.dataclass, flavour)

    def test_fields(self, flavour: dict[str, bool]) -> None:
        ours, theirs = self.both(flavour)
        assert [each.name for each in fields(ours)] == [each.name for each in fields(theirs)]
        assert ours.__match_args__ == theirs.__match_args__
        assert getattr(ours, "__slots__", None) == getattr(theirs, "__slots__", None)
        assert ours.kind == theirs.kind

    def test_values(self, flavour: dict[str, bool]) -> None:
        ours, theirs = (each(x=1, tags=["a"]) for each in self.both(flavour))
        assert asdict(ours) == asdict(theirs)
        assert asdict(replace(ours, x=5)) == asdict(replace(theirs, x=5))
        assert repr(ours) == repr(theirs)
        assert asdict(copy.copy(ours)) == asdict(theirs)
        assert asdict(copy.deepcopy(ours)) == asdict(theirs)

    def test_defaults_are_not_shared(self, flavour: dict[str, bool]) -> None:
        ours, _ = self.both(flavour)
        one, other = ours(x=1), ours(x=1)
        one.tags.append("a")
        one.own["a"] = 1
        assert other.tags == []
        assert other.own == {}

    @pytest.mark.parametrize("change", [{}, {"x": 2}, {"note": "n"}, {"tags": ["t"]}], ids=str)
    def test_comparison(self, flavour: dict[str, bool], change: dict[str, Any]) -> None:
        ours, theirs = self.both(flavour)
        same = ours(x=1)
        assert (same == ours(**{"x": 1, **change})) == (theirs(x=1) == theirs(**{"x": 1, **change}))
        assert ours(x=1) != theirs(x=1)
        assert ours(x=1) != 1

    def test_hash(self, flavour: dict[str, bool]) -> None:
        ours, theirs = self.both(flavour)
        if theirs.__hash__ is None:
            with pytest.raises(TypeError, match="unhashable"):
                hash(ours(x=1))
        elif flavour.get("eq", True):
            assert hash(ours(x=1)) == hash(ours(x=1, note="n", tags=["t"])) == hash(theirs(x=1))
        else:
            assert len({ours(x=1), ours(x=1)}) == 2

    def test_assignment(self, flavour: dict[str, bool]) -> None:
        ours, _ = self.both(flavour)
        made = ours(x=1)
        if flavour.get("frozen"):
            with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
                made.x = 2
            with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
                del made.x
            assert made.x == 1
        else:
            made.x = 2
            assert made.x == 2

    @pytest.mark.parametrize(
        ("args", "kwargs"),
        [((), {}), ((1, 2, "", [], "", 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1}), ((), {"x": 1, "fixed": 1})],
        ids=str,
    )  # fmt: skip
    def test_wrong_calls(
        self, flavour: dict[str, bool], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        for each in self.both(flavour):
            for _ in range(2):  # before and after it is compiled
                with pytest.raises(TypeError, match="argument"):
                    each(*args, **kwargs)

    def test_by_position(self, flavour: dict[str, bool]) -> None:
        ours, _ = self.both(flavour)
        if flavour.get("kw_only"):
            with pytest.raises(TypeError, match="positional"):
                ours(1)
        else:
            assert (ours(1).x, ours(1, 5).y) == (1, 5)


@dataclass(frozen=True, slots=True)
class Pickled:
    x: int
    y: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    x: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived(Base):
    y: int = 2


@dataclass(frozen=True, slots=True)
class One:
    value: float

    def __repr__(self) -> str:
        return "mine"


@dataclass(slots=True)
class Doubled:
    x: int
    twice: int = field(init=False)

    def __post_init__(self) -> None:
        self.twice = 2 * self.x


@dataclass(frozen=True, slots=True)
class Nothing:
    pass


class Plain(One):
    """An ordinary class below a dataclass."""


def test_pickle() -> None:
    assert pickle.loads(pickle.dumps(Pickled(1, (2, 3)))) == Pickled(1, (2, 3))


def test_a_derived_class_has_the_fields_of_its_base() -> None:
    assert repr(Derived(y=3)) == "Derived(x=1, y=3)"
    assert Derived(x=2) != Derived()
    assert Base() == Base(x=1)
    assert Derived.__slots__ == ("y",)


def test_what_is_written_out_stays() -> None:
    assert repr(One(1.0)) == "mine"
    assert One(1.0) == One(1.0)


def test_a_plain_class_below_is_made_as_its_base_is() -> None:
    assert Plain(2.0).value == 2.0
    assert type(Plain(2.0)) is Plain
    assert One(3.0).value == 3.0


def test_post_init() -> None:
    assert Doubled(4).twice == 8


def test_without_fields() -> None:
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    assert repr(Nothing()) == "Nothing()"


def test_match() -> None:
    match Pickled(1, (2,)):
        case Pickled(x, (y,)):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("it does not match")
