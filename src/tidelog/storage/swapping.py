"""Putting cleaned segments in the place of old ones so that a crash leaves either the old or the new.

Kafka's order (LocalLog.replaceSegments), which recovery's `finish_interrupted` completes or undoes:

    1. x.log.cleaned → x.log.swap      before this the clean-up never happened; `.cleaned` files are removed on start
    2. old.log       → old.log.deleted from here on a restart removes the old ones and takes the `.swap`
    3. x.log.swap    → x.log
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.storage import retention
from tidelog.storage.segment import CLEANED, SUFFIXES, SWAP, Segment, file_name

if TYPE_CHECKING:
    from tidelog.storage.log import Log
    from tidelog.storage.recovery import Source


def replace(log: "Log", source: "Source", new: Sequence[int], old: Sequence[int]) -> list[Segment]:
    """Swap the files; returns the segments of the log as they are afterwards."""
    assert log.segments[-1].base_offset not in old, "the active segment cannot be cleaned"
    files, directory = source.files, source.directory
    # Highest first: a crash in between leaves a `.cleaned` below every `.swap`, which tells recovery to drop them all.
    for base in sorted(new, reverse=True):
        _rename(source, base, CLEANED, SWAP)
    files.sync_directory(directory)
    replaced = [each for each in log.segments if each.base_offset in set(old)]
    retention.discard(log, replaced)
    for base in sorted(new, reverse=True):
        _rename(source, base, SWAP, "")
    files.sync_directory(directory)
    sizes = files.sizes(directory)
    swapped = [source.segment(base, sizes) for base in new]
    for segment in swapped:
        segment.synced = True
    kept = [each for each in log.segments if each not in replaced]
    return sorted([*kept, *swapped], key=lambda each: each.base_offset)


def _rename(source: "Source", base: int, old: str, new: str) -> None:
    for suffix in SUFFIXES:
        path = os.path.join(source.directory, file_name(base, suffix))
        if source.files.exists(path + old):
            source.files.rename(path + old, path + new)
