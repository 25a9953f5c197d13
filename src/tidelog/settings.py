"""Typed settings under Kafka's names, declared once.

A section is a frozen dataclass of `setting(...)` fields and lives in the layer that uses it; the broker gathers
the sections.  One declaration gives the parsed value, the check, the answer to DescribeConfigs, the topic
override and the reference page.  This module knows no setting by name.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, field, fields, replace
from typing import Any, Self, get_type_hints

from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError

Check = Callable[[Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is known of one setting, besides its type and default."""

    name: str
    """As in server.properties."""
    doc: str
    check: Check | None = None
    """The check's docstring finishes the sentence "must be …"."""
    topic: str | None = None
    """The name under which a topic may override it."""
    dynamic: bool = False
    """May change while the broker runs."""
    secret: bool = False
    also: Mapping[str, int] = field(default_factory=dict)
    """Coarser synonyms, and what to multiply their value with (log.retention.hours)."""


def setting(name: str, default: Any = MISSING, doc: str = "", **rest: Any) -> Any:
    """Declare a dataclass field as the setting `name`."""
    spec = Setting(name=name, doc=doc, **rest)
    return field(default=default, repr=not spec.secret, metadata={"setting": spec})


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A setting together with the field that holds its value."""

    attribute: str
    kind: Any
    default: Any
    spec: Setting

    @property
    def is_text(self) -> bool:
        """Whether a text can say it; the rest are Python's objects, such as functions."""
        return self.kind in _PARSERS

    def parse(self, name: str, text: str, factor: int = 1) -> Any:
        """The value that `text` stands for; `SettingsError` names the value and what would do."""
        # A key in PEM where a file's name belongs is a secret too.
        hidden = self.spec.secret or _PEM in text
        shown = name if hidden else f"{name}={text!r}"
        try:
            value = _PARSERS[self.kind](text)
        except (ValueError, KeyError):
            raise SettingsError(f"{shown} must be {_KIND_NAMES[self.kind]}") from None
        # A negative value means "off" in every unit.
        value = value * factor if factor != 1 and value >= 0 else value
        if self.spec.check and not self.spec.check(value):
            raise SettingsError(f"{shown} must be {self.spec.check.__doc__}")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A group of settings, frozen; handed down to the layer that declares it."""

    @classmethod
    def load(cls, properties: Mapping[str, str]) -> Self:
        """Build the section from properties; complain of every bad one at once."""
        return cls(**_parse(cls, properties))

    def over(self, overrides: Mapping[str, str]) -> Self:
        """This section as a topic sees it: the topic's own settings over the broker's."""
        values: dict[str, Any] = {}
        wrong: list[str] = []
        by_topic_name = topic_settings(type(self))
        for name, text in overrides.items():
            declared = by_topic_name.get(name)
            if declared is None:
                wrong.append(f"{name} is not a topic setting")
                continue
            try:
                values[declared.attribute] = declared.parse(name, text)
            except SettingsError as error:
                wrong.append(str(error))
        if wrong:
            raise SettingsError("; ".join(wrong))
        return replace(self, **values)


def declared(cls: type[Section]) -> tuple[Declared, ...]:
    """The settings of a section, in order."""
    if cls not in _DECLARED:
        hints = get_type_hints(cls)
        _DECLARED[cls] = tuple(_declared(each, hints[each.name]) for each in fields(cls))
    return _DECLARED[cls]


def topic_settings(cls: type[Section]) -> dict[str, Declared]:
    """The settings of a section that a topic may override, by the topic's name for them."""
    return {each.spec.topic: each for each in declared(cls) if each.spec.topic}


def names_of(cls: type[Section]) -> Iterator[str]:
    """Every property name that the section understands."""
    for each in declared(cls):
        yield each.spec.name
        yield from each.spec.also


def text_of(value: Any) -> str:
    """A value as server.properties would spell it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)


def at_least(low: float) -> Check:
    def check(value: Any) -> bool:
        return bool(value >= low)

    check.__doc__ = f"at least {low}"
    return check


def between(low: float, high: float) -> Check:
    def check(value: Any) -> bool:
        return bool(low <= value <= high)

    check.__doc__ = f"between {low} and {high}"
    return check


def is_file_name(value: str) -> bool:
    """the name of a PEM file, not what is in it: write that to a file of mode 0600"""
    return _PEM not in value


def one_of(*allowed: str) -> Check:
    """For a string, one of `allowed`; for a list, a non-empty list of them."""

    def check(value: Any) -> bool:
        parts = value if isinstance(value, tuple) else (value,)
        return bool(parts) and all(part in allowed for part in parts)

    check.__doc__ = "one of " + ", ".join(allowed)
    check.allowed = allowed  # type: ignore[attr-defined]  # for whoever lists them
    return check


def allowed_by(check: Check | None) -> tuple[str, ...]:
    """The words of a `one_of`; none for another check."""
    return getattr(check, "allowed", ())


_PEM = "-----BEGIN"
_DECLARED: dict[type[Section], tuple[Declared, ...]] = {}


def _whole(text: str) -> int:
    value = int(text)
    if "_" in text or not -(1 << 63) <= value < 1 << 63:
        raise ValueError(text)
    return value


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_PARSERS: dict[Any, Callable[[str], Any]] = {
    int: _whole,
    float: float,
    str: str.strip,
    bool: _boolean,
    tuple[str, ...]: _words,
}
_KIND_NAMES = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    tuple[str, ...]: "a comma-separated list",
}


def _declared(each: "Field[Any]", kind: Any) -> Declared:
    return Declared(
        attribute=each.name, kind=kind, default=each.default, spec=each.metadata["setting"]
    )


def _parse(cls: type[Section], properties: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for each in declared(cls):
        try:
            values |= _read(each, properties)
        except SettingsError as error:
            wrong.append(str(error))
    if wrong:
        raise SettingsError("; ".join(wrong))
    return values


def _read(each: Declared, properties: Mapping[str, str]) -> dict[str, Any]:
    for name, factor in {each.spec.name: 1, **each.spec.also}.items():
        if name in properties:
            return {each.attribute: each.parse(name, properties[name], factor)}
    if each.default is MISSING:
        raise SettingsError(f"{each.spec.name} must be set")
    return {}
