"""A disk that fails as disks do: full, broken, cut off in the middle of a write, or forgetful after a power cut.

    files = FaultyFiles(root, plan=at(17, Fault.NO_SPACE))     the 18th operation that changes the disk finds it full
    files = FaultyFiles(root, plan=by_seed(4711, 0.01))        now and then something fails

    files = FaultyFiles(root, plan=at(17, Fault.DIE_TORN))     half of a write, then `Died` is raised, for good
    after_kill = files.kill()                                  the disk as a killed process leaves it
    after_cut = files.cut_power(seed=1)                        only what was synced, and a random part of the rest

The files are real ones below `root`, so `fileno`, `sendfile` and maps work.  Beside them a model is kept of what is
durable: a file's bytes after `datasync`, a directory's entries after `sync_directory`.  Meant for tests: every write is
remembered until it is synced.
"""

import errno
import mmap
import os
import random
import shutil
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from tidelog.storage.files import Buffer, File, LocalFiles, Lock, replace_atomically


class Fault(Enum):
    """What goes wrong at a write point."""

    NO_SPACE = "ENOSPC, and nothing is written"
    IO_ERROR = "EIO, and nothing is written"
    SHORT = "half is written, then ENOSPC"
    DIE = "the process dies before"
    DIE_TORN = "the process dies when half is written"
    DIE_AFTER = "the process dies right after"


class Point(NamedTuple):
    """An operation that changes the disk."""

    number: int
    action: str
    """write, truncate, allocate, sync, create, rename, remove, make_directory or sync_directory"""
    path: str


Plan = Callable[[Point], Fault | None]


class Died(BaseException):
    """The simulated process has died; nothing should catch this but the test."""


def at(number: int, fault: Fault) -> Plan:
    """Fail at the write point with this number."""
    return lambda point: fault if point.number == number else None


def on(action: str, suffix: str, fault: Fault) -> Plan:
    """Fail whenever this is done to a file whose name ends so."""
    return lambda point: fault if point.action == action and point.path.endswith(suffix) else None


def by_seed(
    seed: int, probability: float, faults: tuple[Fault, ...] = (Fault.NO_SPACE, Fault.SHORT)
) -> Plan:
    """Fail at random points."""
    chance = random.Random(seed)
    return lambda _: chance.choice(faults) if chance.random() < probability else None


class _Node:
    """A file: what is durable of it, and what is not yet."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = bytearray(durable)
        self.pending: list[tuple[int, bytes | None]] = []
        """(position, bytes), or (size, None) for a truncation."""

    def sync(self) -> None:
        for position, data in self.pending:
            _apply(self.durable, position, data)
        self.pending.clear()

    def after_power_cut(self, chance: random.Random | None) -> bytes:
        content = bytearray(self.durable)
        if chance is None or not self.pending:
            return bytes(content)
        survive = chance.randint(0, len(self.pending))
        for position, data in self.pending[:survive]:
            # A disk may write later blocks before earlier ones.
            if chance.random() < 0.9:
                _apply(content, position, data)
        if survive < len(self.pending):
            position, data = self.pending[survive]
            if data:
                _apply(content, position, data[: chance.randint(0, len(data))])
        return bytes(content)


class _Folder:
    """A directory: its entries now, and those that are durable."""

    def __init__(self) -> None:
        self.entries: dict[str, _Node | _Folder] = {}
        self.durable: dict[str, _Node | _Folder] = {}
        self.pending: list[dict[str, _Node | _Folder | None]] = []

    def change(self, entries: "dict[str, _Node | _Folder | None]") -> None:
        self.pending.append(entries)
        _merge(self.entries, entries)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.pending.clear()

    def after_power_cut(self, chance: random.Random | None) -> "dict[str, _Node | _Folder]":
        entries = dict(self.durable)
        survive = chance.randint(0, len(self.pending)) if chance else 0
        for change in self.pending[:survive]:
            _merge(entries, change)
        return entries


class FaultyFiles:
    """See the module's docstring."""

    def __init__(self, root: str, *, plan: Plan | None = None) -> None:
        self.root = os.path.abspath(root)
        self.plan = plan
        self.points: list[Point] = []
        """Every write point so far."""
        self._local = LocalFiles()
        self._died = False
        os.makedirs(self.root, exist_ok=True)
        self._tree = _read_tree(self.root)

    # ------------------------------------------------------------------ faults

    def kill(self) -> "FaultyFiles":
        """End the process; the disk keeps everything that was written."""
        self._died = True
        return FaultyFiles(self.root)

    def cut_power(self, seed: int | None = None) -> "FaultyFiles":
        """End the process and lose what was not synced; with a seed, a random part of that survives, torn."""
        self._died = True
        chance = random.Random(seed) if seed is not None else None
        for name in os.listdir(self.root):
            path = os.path.join(self.root, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        _write_tree(self.root, self._tree, chance)
        return FaultyFiles(self.root)

    def at_point(self, action: str, path: str, half: Callable[[], None] | None = None) -> bool:
        """Fail here if the plan says so; True when the process is to die right after."""
        if self._died:
            raise Died
        point = Point(len(self.points), action, path)
        self.points.append(point)
        fault = self.plan(point) if self.plan else None
        if fault is None:
            return False
        if fault is Fault.DIE_AFTER:
            return True
        if fault in (Fault.SHORT, Fault.DIE_TORN) and half is not None:
            half()
        if fault in (Fault.DIE, Fault.DIE_TORN):
            self.die()
        code = errno.EIO if fault is Fault.IO_ERROR else errno.ENOSPC
        raise OSError(code, os.strerror(code), path)

    def die(self) -> None:
        self._died = True
        raise Died

    # ------------------------------------------------------------------ Files

    def open(self, path: str, *, create: bool = False) -> File:
        folder, name = self._place(path)
        node = folder.entries.get(name)
        if node is None and create:
            after = self.at_point("create", path)
            node = _Node()
            folder.change({name: node})
            file = self._local.open(path, create=True)
            if after:
                self.die()
            return FaultyFile(self, file, node)
        if node is None and os.path.exists(path):
            # Written by another process, as a cleaner does: taken for durable.
            with open(path, "rb") as found:
                node = folder.entries[name] = folder.durable[name] = _Node(found.read())
        file = self._local.open(path)
        assert isinstance(node, _Node), path
        return FaultyFile(self, file, node)

    def read(self, path: str) -> bytes:
        return self._local.read(path)

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        replace_atomically(self, path, data, sync=sync)

    def exists(self, path: str) -> bool:
        return self._local.exists(path)

    def size(self, path: str) -> int:
        return self._local.size(path)

    def sizes(self, directory: str) -> dict[str, int]:
        return self._local.sizes(directory)

    def directories(self, directory: str) -> list[str]:
        return self._local.directories(directory)

    def make_directory(self, path: str) -> None:
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for each in reversed(missing):
            after = self.at_point("make_directory", each)
            folder, name = self._place(each)
            folder.change({name: _Folder()})
            self._local.make_directory(each)
            if after:
                self.die()

    def rename(self, source: str, target: str) -> None:
        after = self.at_point("rename", target)
        (old_folder, old), (new_folder, new) = self._place(source), self._place(target)
        node = old_folder.entries.get(old) or _read_node(source)
        if old_folder is new_folder:
            old_folder.change({old: None, new: node})
        else:
            new_folder.change({new: node})
            old_folder.change({old: None})
        self._local.rename(source, target)
        if after:
            self.die()

    def remove(self, path: str) -> None:
        if not os.path.exists(path):
            return
        after = self.at_point("remove", path)
        folder, name = self._place(path)
        folder.change({name: None})
        self._local.remove(path)
        if after:
            self.die()

    def remove_tree(self, path: str) -> None:
        self.at_point("remove", path)
        folder, name = self._place(path)
        folder.change({name: None})
        self._local.remove_tree(path)

    def sync_directory(self, path: str) -> None:
        if os.path.commonpath([self.root, os.path.abspath(path)]) != self.root:
            return  # what is above was there before, and stays
        after = self.at_point("sync_directory", path)
        self._folder(path).sync()
        if after:
            self.die()

    def lock(self, path: str) -> Lock:
        return self._local.lock(path)

    def _place(self, path: str) -> tuple[_Folder, str]:
        folder, name = os.path.split(os.path.abspath(path))
        return self._folder(folder), name

    def _folder(self, path: str) -> _Folder:
        folder = self._tree
        inside = os.path.relpath(os.path.abspath(path), self.root)
        for name in inside.split(os.sep):
            if name in ("", "."):
                continue
            if name == "..":
                raise ValueError(f"{path} is outside of {self.root}")
            child = folder.entries.get(name)
            if not isinstance(child, _Folder):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            folder = child
        return folder


class FaultyFile:
    """An open file of a `FaultyFiles`."""

    def __init__(self, files: FaultyFiles, file: File, node: _Node) -> None:
        self.path = file.path
        self._files = files
        self._file = file
        self._node = node

    def pread(self, length: int, position: int) -> bytes:
        return self._file.pread(length, position)

    def pread_into(self, buffer: memoryview, position: int) -> int:
        return self._file.pread_into(buffer, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        copy = bytes(data)
        half = copy[: len(copy) // 2]
        after = self._files.at_point("write", self.path, lambda: self._write(half, position))
        self._write(copy, position)
        if after:
            self._files.die()

    def datasync(self) -> None:
        # The real disk is not asked: the model alone decides what survives.
        after = self._files.at_point("sync", self.path)
        self._node.sync()
        if after:
            self._files.die()

    def truncate(self, size: int) -> None:
        after = self._files.at_point("truncate", self.path)
        self._file.truncate(size)
        self._node.pending.append((size, None))
        if after:
            self._files.die()

    def allocate(self, size: int) -> None:
        after = self._files.at_point("allocate", self.path)
        self._file.allocate(size)
        self._node.pending.append((max(size, self._file.size()), None))
        if after:
            self._files.die()

    def size(self) -> int:
        return self._file.size()

    def fileno(self) -> int:
        return self._file.fileno()

    def map(self) -> mmap.mmap:
        return self._file.map()

    def close(self) -> None:
        self._file.close()

    def _write(self, data: bytes, position: int) -> None:
        self._file.pwrite(data, position)
        self._node.pending.append((position, data))


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    size = position if data is None else max(position, len(content))
    content.extend(bytes(max(size - len(content), 0)))
    if data is None:
        del content[position:]
    else:
        content[position : position + len(data)] = data


def _merge(entries: dict[str, _Node | _Folder], change: dict[str, _Node | _Folder | None]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def _read_tree(path: str) -> _Folder:
    folder = _Folder()
    for name in os.listdir(path):
        folder.entries[name] = _read_node(os.path.join(path, name))
    folder.sync()
    return folder


def _read_node(path: str) -> _Node | _Folder:
    if os.path.isdir(path):
        return _read_tree(path)
    with open(path, "rb") as file:
        return _Node(file.read())


def _write_tree(path: str, folder: _Folder, chance: random.Random | None) -> None:
    for name, node in folder.after_power_cut(chance).items():
        target = os.path.join(path, name)
        if isinstance(node, _Folder):
            os.mkdir(target)
            _write_tree(target, node, chance)
        else:
            with open(target, "wb") as file:
                file.write(node.after_power_cut(chance))
