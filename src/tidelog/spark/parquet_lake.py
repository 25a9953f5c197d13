"""The lake as plain directories of Parquet: topic=…/date=…/hour=…/*.parquet, for readers that know nothing else.

    table/
      topic=clicks/date=2026-01-31/hour=12/0-….zstd.parquet
      _tidelog/00000000000000000017.json        what commit 17 added, and where each partition ends after it
      _staging/<uuid>/…                         what tasks are writing

A directory cannot take several files at once, so a commit is in two steps: its manifest is linked under the next number, which only one load can
do, and then the files are moved into place.  Whoever opens the table moves what a crash has left behind, so files are there once, and offsets never
lag behind them.  Names that begin with `_` are left out by Spark, Hive, Arrow and others.

A reader sees the files of one commit come one by one; that, compaction and versions are what Delta is for.
"""

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tidelog.errors import SettingsError, TidelogError
from tidelog.names import TopicPartition
from tidelog.spark.lake import LakeFile, LoadRefused, Note
from tidelog.spark.planning import Offsets, TopicIds, from_json, ids_in, to_json

_LOG, _STAGING = "_tidelog", "_staging"
_KEPT = 200
"""Manifests that are kept."""
_ABANDONED_S = 24 * 3600.0
"""Staged files that are older belong to a load that was killed."""


class ParquetLake:
    """One table as of one manifest."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._place = f"{_STAGING}/{uuid.uuid4()}"
        self.staging = f"{path}/{self._place}"
        self._log = Path(path) / _LOG
        if not self._log.is_dir() and Path(path).is_dir() and any(Path(path).iterdir()):
            raise SettingsError(f"{path} is not empty and no table of ours; name another directory")
        self._manifest: dict[str, Any] = {"offsets": {}}
        self.version = -1
        self._take_newest()

    def create(self) -> None:
        """Make the table if it is not there, and finish what a killed load has begun."""
        self._log.mkdir(parents=True, exist_ok=True)
        self._take_newest()
        self._roll_forward()
        for each in (Path(self.path) / _STAGING).glob("*"):
            if time.time() - each.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(each, ignore_errors=True)

    def offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where each partition ends in the table; those that are not in it are left out."""
        there = from_json(self._manifest["offsets"])
        return {tp: there[tp] for tp in partitions if tp in there}

    def topic_ids(self, topics: Iterable[str]) -> TopicIds:
        """The ids of the topics whose offsets these are; those of tables that were made without are left out."""
        known = ids_in(self._manifest["offsets"])
        return {name: known[name] for name in topics if name in known}

    def notes(self) -> Iterator[tuple[int, Note]]:
        """What earlier commits said, the newest first."""
        for version in sorted(_versions(self._log), reverse=True):
            yield version, _read(self._log, version)["note"]

    def commit(self, files: Sequence[LakeFile], ends: Offsets, ids: TopicIds, note: Note) -> int:
        """Make the files visible and move the offsets; LoadRefused if another load was faster."""
        offsets = {**from_json(self._manifest["offsets"]), **ends}
        manifest = {
            "offsets": to_json(offsets, {**ids_in(self._manifest["offsets"]), **ids}),
            "staging": self._place,
            "files": [each.path for each in files],
            "note": {name: str(value) for name, value in note.items()},
        }
        try:
            _link(self._log, self.version + 1, manifest)
        except FileExistsError:
            shutil.rmtree(self.staging, ignore_errors=True)
            raise LoadRefused(
                f"another load has written to {self.path} in the meantime; nothing of this one was added: run one at a time"
            ) from None
        self._manifest, self.version = manifest, self.version + 1
        self._roll_forward()
        for old in _versions(self._log):
            if old <= self.version - _KEPT:
                (self._log / _name(old)).unlink(missing_ok=True)
        return self.version

    def _take_newest(self) -> None:
        found = _versions(self._log)
        if found:
            self.version = max(found)
            self._manifest = _read(self._log, self.version)

    def _roll_forward(self) -> None:
        """Move what the newest manifest names into place; others may be doing the same."""
        root = Path(self.path)
        if not (root / self._manifest.get("staging", _STAGING)).is_dir():
            return  # it goes last: everything was moved, and what is not there any more was removed since
        for name in self._manifest.get("files", ()):
            source, target = root / self._manifest["staging"] / name, root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.rename(source, target)
            except FileNotFoundError:
                if not target.exists():
                    raise TidelogError(
                        f"{target} is missing, which commit {self.version} has written"
                    ) from None
        if self._manifest.get("staging"):
            shutil.rmtree(root / self._manifest["staging"], ignore_errors=True)


def _versions(log: Path) -> list[int]:
    return [int(each.stem) for each in log.glob("*.json") if each.stem.isdigit()]


def _read(log: Path, version: int) -> dict[str, Any]:
    found = json.loads((log / _name(version)).read_text())
    assert isinstance(found, dict)
    return found


def _link(log: Path, version: int, manifest: dict[str, Any]) -> None:
    """On disk, whole, and only if the number is free."""
    mine = log / f".{uuid.uuid4()}"
    try:
        with open(mine, "w") as file:
            json.dump(manifest, file)
            file.flush()
            os.fsync(file.fileno())
        os.link(mine, log / _name(version))
    finally:
        mine.unlink(missing_ok=True)
    handle = os.open(log, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _name(version: int) -> str:
    return f"{version:020}.json"
