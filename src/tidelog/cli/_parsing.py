r"""Messages out of a stream, by percent directives: the inverse of `--format` in `consume`.

    '%k:%v\n'             a line with a key, a colon and a value
    '%T %h %k %v\n'       a time in ms, headers a=b,c=d, key, value
    '%K,%V,%k%v'          lengths first, so that anything may be inside; -1 is null

A directive ends where the text behind it begins; after a length it has that length.  Directives: %k key, %v %s value, %h headers,
%T time in ms, %d time as a date, %p partition, %K %V %S lengths; %t topic and %o offset are read and left out.
"""

import io
from collections.abc import Callable, Iterator
from typing import IO, Any

from tidelog.cli._formats import Written, split_format
from tidelog.cli._times import parse_time
from tidelog.errors import SettingsError

_SAME = {"s": "v", "S": "V"}
_KNOWN = "k v s h T d p K V S t o"
_CHUNK = 1 << 16


def reader(text: str) -> Callable[[IO[bytes]], Iterator[Written]]:
    """What reads messages in a format."""
    parts = split_format(text, _KNOWN.split())
    steps = [_SAME.get(each, each) if isinstance(each, str) else each for each in parts]
    _check(text, steps)

    def read(source: IO[bytes]) -> Iterator[Written]:
        stream = _Stream(source)
        while not stream.at_end():
            yield _one(stream, steps)

    return read


def _check(text: str, steps: list[bytes | str]) -> None:
    if not {"k", "v"} & set(steps):
        raise SettingsError(f"--format {text!r} has neither %v nor %k")
    measured = {each.lower() for each in steps if isinstance(each, str) and each in "KV"}
    for place, step in enumerate(steps):
        behind = steps[place + 1] if place + 1 < len(steps) else None
        if isinstance(step, str) and not isinstance(behind, bytes) and step not in measured:
            raise SettingsError(
                f"--format {text!r}: nothing says where %{step} ends; "
                "put a text behind it, as \\n, or its length before it, as %V"
            )


def _one(stream: "_Stream", steps: list[bytes | str]) -> Written:
    found: dict[str, bytes | None] = {}
    lengths: dict[str, int] = {}
    for place, step in enumerate(steps):
        if isinstance(step, bytes):
            stream.skip(step, last=place == len(steps) - 1)
        elif step in lengths:
            found[step] = None if lengths[step] < 0 else stream.take(lengths[step])
        else:
            ends = steps[place + 1]
            assert isinstance(ends, bytes), "checked before"
            raw = stream.until(ends)
            if step in ("K", "V"):
                lengths[step.lower()] = _number(step, raw)
            else:
                found[step] = raw
    return _written(found)


def _written(found: dict[str, bytes | None]) -> Written:
    timestamp = None
    if found.get("T") is not None:
        timestamp = _number("T", found["T"] or b"")
    elif found.get("d"):
        timestamp = parse_time((found["d"] or b"").decode(errors="replace"), 0)
    partition = _number("p", found["p"] or b"") if "p" in found else None
    headers = tuple(_header(each) for each in (found.get("h") or b"").split(b",") if each)
    return Written(found.get("k"), found.get("v"), headers, partition, timestamp)


def _header(raw: bytes) -> tuple[str, bytes]:
    name, _, value = raw.partition(b"=")
    return name.decode(errors="replace"), value


def _number(directive: str, raw: bytes) -> int:
    try:
        return int(raw)
    except ValueError:
        shown = raw[:40].decode(errors="replace")
        raise SettingsError(f"{shown!r} is no number, and stands where %{directive} is") from None


class _Stream:
    """A source of bytes that is read by delimiters and lengths."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._held = bytearray()
        self._ended = False

    def at_end(self) -> bool:
        return not self._held and not self._more()

    def until(self, end: bytes) -> bytes:
        """All before the next `end`, which stays."""
        looked = 0
        while (place := self._held.find(end, looked)) < 0:
            looked = max(0, len(self._held) - len(end) + 1)
            if not self._more():
                if end == b"\n":  # the last line may lack it
                    return self._cut(len(self._held))
                raise SettingsError(
                    f"the input ends before {end.decode(errors='replace')!r}: {self._shown()!r}"
                )
        return self._cut(place)

    def take(self, count: int) -> bytes:
        while len(self._held) < count:
            if not self._more():
                raise SettingsError(f"the input ends {count - len(self._held)} bytes too early")
        return self._cut(count)

    def skip(self, text: bytes, *, last: bool) -> None:
        while len(self._held) < len(text) and self._more():
            pass
        if self._held.startswith(text):
            del self._held[: len(text)]
        elif self._held or not last:
            raise SettingsError(
                f"{self._shown()!r} is there instead of {text.decode(errors='replace')!r}"
            )

    def _cut(self, count: int) -> bytes:
        taken = bytes(self._held[:count])
        del self._held[:count]
        return taken

    def _more(self) -> bool:
        if not self._ended:
            source: Any = self._source
            # Not more than there is: somebody may be typing.
            chunk = (
                source.read1(_CHUNK)
                if isinstance(source, io.BufferedReader)
                else source.read(_CHUNK)
            )
            self._held += chunk
            self._ended = not chunk
        return not self._ended

    def _shown(self) -> str:
        return bytes(self._held[:60]).decode(errors="replace")
