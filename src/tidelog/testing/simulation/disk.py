"""The simulated disk of a host, in memory: it outlives processes, and forgets what was not synced when the power goes.

    disk = SimDisk(chance)
    broker = Broker(settings, files=disk, ...)
    disk.process_died()          locks are free again; the page cache stays, and is as little synced as before
    disk.cut_power()             what was synced stays, of the rest a random part, torn

As `tidelog.testing.faulty_files`, which does the same with real files: a file's bytes are durable after `datasync`, a
directory's entries after `sync_directory`; both survive a power cut in part, and writes may reach the disk out of order.
"""

import errno
import mmap
import os
import posixpath
import weakref
from collections.abc import Callable
from random import Random

from tidelog.storage.files import AlreadyLocked, Buffer, File, Lock, replace_atomically

_OUT_OF_ORDER = 0.1
"""Part of the unsynced writes that are missing although a later one has reached the disk."""

Fail = Callable[[str, str], OSError | None]
"""(action, path) -> the error that it meets, if any."""


class _Content:
    """A file: its bytes as everybody reads them, those on the disk, and the writes in between."""

    __slots__ = ("bytes", "durable", "maps", "pending")

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.durable = bytearray()
        self.maps: list[weakref.ref[mmap.mmap]] = []
        self.pending: list[tuple[int, bytes | None]] = []
        """(position, bytes), or (size, None) for a new size."""

    def change(self, position: int, data: bytes | None) -> None:
        _apply(self.bytes, position, data)
        self.pending.append((position, data))
        if self.maps and data is not None:
            self._show(position, data)

    def map(self) -> mmap.mmap:
        copy = mmap.mmap(-1, len(self.bytes))
        copy[:] = bytes(self.bytes)
        self.maps.append(weakref.ref(copy))
        return copy

    def _show(self, position: int, data: bytes) -> None:
        """Whoever has mapped the file sees what is written to it."""
        self.maps = [each for each in self.maps if (found := each()) and not found.closed]
        for each in self.maps:
            shown = each()
            if shown is not None and position < len(shown):
                end = min(position + len(data), len(shown))
                shown[position:end] = data[: end - position]

    def sync(self) -> None:
        for position, data in self.pending:
            _apply(self.durable, position, data)
        self.pending.clear()

    def cut_power(self, chance: Random) -> None:
        survive = chance.randint(0, len(self.pending)) if self.pending else 0
        for position, data in self.pending[:survive]:
            if chance.random() >= _OUT_OF_ORDER:
                _apply(self.durable, position, data)
        if survive < len(self.pending):
            position, data = self.pending[survive]
            if data:
                _apply(self.durable, position, data[: chance.randint(0, len(data))])
        self.pending.clear()
        self.bytes = bytearray(self.durable)


class _Folder:
    """A directory: its entries now, those on the disk, and the changes in between."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, _Content | _Folder] = {}
        self.durable: dict[str, _Content | _Folder] = {}
        self.pending: list[dict[str, _Content | _Folder | None]] = []

    def change(self, change: "dict[str, _Content | _Folder | None]") -> None:
        self.pending.append(change)
        _merge(self.entries, change)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.pending.clear()

    def cut_power(self, chance: Random) -> None:
        survive = chance.randint(0, len(self.pending)) if self.pending else 0
        for change in self.pending[:survive]:
            _merge(self.durable, change)
        self.pending.clear()
        self.entries = dict(self.durable)
        for _, node in sorted(self.entries.items()):
            node.cut_power(chance)


class SimDisk:
    """A `Files` whose content is this object; see the module's docstring."""

    def __init__(self, chance: Random) -> None:
        self._faults: dict[str, Fail] = {}
        """By the directory whose files meet them; all that is below it, too."""
        self._chance = chance
        self._root = _Folder()
        self._locked: set[str] = set()

    # ------------------------------------------------------------------ faults

    def process_died(self) -> None:
        """The disk as a killed process leaves it."""
        self._locked.clear()

    def cut_power(self) -> None:
        """The disk as a power cut leaves it."""
        self._locked.clear()
        self._root.cut_power(self._chance)

    def fill(self) -> None:
        """Let nothing more be written, until `free`."""
        self._faults["/"] = _full

    def free(self) -> None:
        self._faults.pop("/", None)

    def break_directory(self, path: str) -> None:
        """Let everything in a directory fail, reading too, until `mend_directory`."""
        self._faults[path] = _broken

    def make_read_only(self, path: str) -> None:
        """Let a directory be as it is when the kernel mounts its file system anew after an error."""
        self._faults[path] = _read_only

    def mend_directory(self, path: str) -> None:
        """Everything in it is as it was."""
        self._faults.pop(path, None)

    def empty(self, path: str) -> None:
        """Remove everything from a directory, as when its volume is not mounted."""
        folder = self._folder(path)
        folder.change(dict.fromkeys(folder.entries))
        folder.sync()

    def unsynced(self) -> int:
        """How many bytes a power cut would endanger."""
        return _unsynced(self._root)

    def check(self, action: str, path: str) -> None:
        for directory, fault in self._faults.items():
            if path.startswith(directory):
                error = fault(action, path)
                if error is not None:
                    raise error

    # ------------------------------------------------------------------ Files

    def open(self, path: str, *, create: bool = False) -> File:
        self.check("open", path)
        folder, name = self._place(path)
        node = folder.entries.get(name)
        if node is None:
            if not create:
                raise _missing(path)
            self.check("create", path)
            node = _Content()
            folder.change({name: node})
        if isinstance(node, _Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return SimFile(self, path, node)

    def read(self, path: str) -> bytes:
        self.check("read", path)
        return bytes(self._content(path).bytes)

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        replace_atomically(self, path, data, sync=sync)

    def exists(self, path: str) -> bool:
        try:
            folder, name = self._place(path)
        except FileNotFoundError:
            return False
        return name in folder.entries

    def size(self, path: str) -> int:
        return len(self._content(path).bytes)

    def sizes(self, directory: str) -> dict[str, int]:
        self.check("read", directory)
        entries = sorted(self._folder(directory).entries.items())
        return {name: len(each.bytes) for name, each in entries if isinstance(each, _Content)}

    def directories(self, directory: str) -> list[str]:
        self.check("read", directory)
        entries = sorted(self._folder(directory).entries.items())
        return [name for name, each in entries if isinstance(each, _Folder)]

    def make_directory(self, path: str) -> None:
        folder = self._root
        for name in _parts(path):
            child = folder.entries.get(name)
            if child is None:
                self.check("make_directory", path)
                child = _Folder()
                folder.change({name: child})
            if not isinstance(child, _Folder):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            folder = child

    def rename(self, source: str, target: str) -> None:
        self.check("rename", target)
        (old_folder, old), (new_folder, new) = self._place(source), self._place(target)
        node = old_folder.entries.get(old)
        if node is None:
            raise _missing(source)
        if old_folder is new_folder:
            old_folder.change({old: None, new: node})
        else:
            new_folder.change({new: node})
            old_folder.change({old: None})

    def remove(self, path: str) -> None:
        folder, name = self._place(path)
        if name in folder.entries:
            self.check("remove", path)
            folder.change({name: None})

    def remove_tree(self, path: str) -> None:
        if self.exists(path):
            self.remove(path)

    def sync_directory(self, path: str) -> None:
        self.check("sync_directory", path)
        self._folder(path).sync()

    def lock(self, path: str) -> Lock:
        if path in self._locked:
            raise AlreadyLocked(path, "another")
        self._locked.add(path)
        return SimLock(self._locked, path)

    def _content(self, path: str) -> _Content:
        folder, name = self._place(path)
        node = folder.entries.get(name)
        if not isinstance(node, _Content):
            raise _missing(path)
        return node

    def _place(self, path: str) -> tuple[_Folder, str]:
        folder, name = posixpath.split(path.rstrip("/"))
        return self._folder(folder), name

    def _folder(self, path: str) -> _Folder:
        folder = self._root
        for name in _parts(path):
            child = folder.entries.get(name)
            if not isinstance(child, _Folder):
                raise _missing(path)
            folder = child
        return folder


class SimFile:
    """An open file of a `SimDisk`; it works on after its name is gone."""

    __slots__ = ("_content", "_disk", "path")

    def __init__(self, disk: SimDisk, path: str, content: _Content) -> None:
        self.path = path
        self._disk = disk
        self._content = content

    def pread(self, length: int, position: int) -> bytes:
        self._disk.check("read", self.path)
        return bytes(self._content.bytes[position : position + length])

    def pread_into(self, buffer: memoryview, position: int) -> int:
        found = self.pread(len(buffer), position)
        buffer[: len(found)] = found
        return len(found)

    def pwrite(self, data: Buffer, position: int) -> None:
        self._disk.check("write", self.path)
        self._content.change(position, bytes(data))

    def datasync(self) -> None:
        self._disk.check("sync", self.path)
        self._content.sync()

    def truncate(self, size: int) -> None:
        self._disk.check("truncate", self.path)
        self._content.change(size, None)

    def allocate(self, size: int) -> None:
        self._disk.check("allocate", self.path)
        if size > len(self._content.bytes):
            self._content.change(size, None)

    def size(self) -> int:
        return len(self._content.bytes)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor", self.path)

    def map(self) -> mmap.mmap:
        return self._content.map()

    def close(self) -> None:
        pass


class SimLock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)


def _full(action: str, path: str) -> OSError | None:
    if action in ("write", "create", "allocate", "make_directory"):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    return None


def _broken(action: str, path: str) -> OSError | None:
    return OSError(errno.EIO, os.strerror(errno.EIO), path)


def _read_only(action: str, path: str) -> OSError | None:
    if action in ("open", "read"):
        return None
    return OSError(errno.EROFS, os.strerror(errno.EROFS), path)


def _parts(path: str) -> list[str]:
    return [each for each in path.split("/") if each not in ("", ".")]


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        if position < len(content):
            del content[position:]
        else:
            content.extend(bytes(position - len(content)))
        return
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _merge(
    entries: dict[str, _Content | _Folder], change: dict[str, _Content | _Folder | None]
) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def _unsynced(folder: _Folder) -> int:
    total = 0
    for node in folder.entries.values():
        if isinstance(node, _Folder):
            total += _unsynced(node)
        else:
            total += sum(len(data) for _, data in node.pending if data is not None)
    return total
