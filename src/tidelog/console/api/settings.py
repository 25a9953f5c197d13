"""Settings of topics and brokers, as both are shown and changed."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, Field

from tidelog.client.admin import ConfigEntry
from tidelog.dataclass import dataclass

SettingText = Annotated[str, Field(max_length=10_000)]
SettingName = Annotated[str, Field(max_length=200)]


@dataclass(frozen=True, slots=True)
class SettingView:
    """One setting; a secret has no value here."""

    name: str
    value: str | None
    is_default: bool
    is_own: bool
    is_read_only: bool
    is_secret: bool


class Changes(BaseModel):
    """Settings to be changed; null takes one back to its default."""

    changes: Annotated[dict[SettingName, SettingText | None], Field(min_length=1, max_length=100)]
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Changed:
    changed: list[str]
    dry_run: bool


def views(entries: Iterable[ConfigEntry]) -> list[SettingView]:
    return [
        SettingView(
            each.name,
            None if each.is_sensitive else each.value,
            each.is_default,
            each.is_own,
            each.is_read_only,
            each.is_sensitive,
        )
        for each in sorted(entries, key=lambda each: each.name)
    ]
