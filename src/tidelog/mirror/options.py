"""What a mirror is told to do."""

import re
from dataclasses import field

from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError

OFFSETS_PREFIX = "mirror-offsets."
"""Of the topics at the target that say which source offset became which target offset."""

OFFSET_HEADER = "mirror.source.offset"
"""The header that keeps a record's source offset, in decimal digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions:
    """One target, one source or several; patterns are held against whole names of topics."""

    sources: tuple[str, ...]
    """Bootstrap addresses, `NAME=host:port,…` or without a name; the name is what positions are kept under."""
    target: str
    include: str = ".*"
    exclude: str = ""
    prefix: str = ""
    """Put before the names of topics at the target; `{source}` in it is the source's name."""
    group: str = "mirror"
    """Mirrors of one group share the work."""
    instance: str = ""
    """A name that outlives this process: whoever starts with it again goes on at once, and fences its predecessor."""
    exactly_once: bool = False
    offset_header: bool = False
    copy_acls: bool = False
    groups: str = ""
    """Consumer groups, by pattern, whose offsets are translated to the target."""
    audit_tier: str = ""
    """Publish what was passed on to the target's `_audit`, under this tier's name."""
    audit_window_ms: int = 600_000
    audit_registry: str = ""
    """Where the schema of the counts is registered; nowhere without."""
    commit_interval_s: float = 0.5
    transaction_bytes: int = 16 * 1024 * 1024
    """A transaction is ended after so many bytes, even if its time has not come."""
    buffer_bytes: int = 32 * 1024 * 1024
    """What one source may hold in memory on either side, at most and about."""
    look_interval_s: float = 5.0
    """How often to look for new topics, partitions, settings and offsets of groups."""
    session_timeout_ms: int = 10_000
    source_settings: dict[str, str] = field(default_factory=dict)
    target_settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.sources:
            raise SettingsError("a mirror needs a source")
        for name, pattern in (
            ("include", self.include),
            ("exclude", self.exclude),
            ("groups", self.groups),
        ):
            try:
                re.compile(pattern)
            except re.error as error:
                raise SettingsError(f"{name}={pattern!r} is no pattern: {error}") from None
        names = [name for name, _ in self.named_sources()]
        if len(set(names)) < len(names):
            raise SettingsError(f"two sources have the same name: {', '.join(names)}")

    def named_sources(self) -> list[tuple[str, str]]:
        """Each source's name and its address; a source without a name is called by its first address."""
        found = []
        for text in self.sources:
            name, equals, address = text.rpartition("=")
            first = address.partition(",")[0]
            found.append((name if equals else re.sub(r"[^A-Za-z0-9._-]", "-", first), address))
        return found

    def excluded(self) -> list[str]:
        """Patterns of what is never mirrored: what was asked for, and a mirror's own notes."""
        own = re.escape(OFFSETS_PREFIX) + ".*"
        return [each for each in (self.exclude, own) if each]

    def prefix_for(self, source: str) -> str:
        return self.prefix.replace("{source}", source)
