"""The disk: the only module of the storage engine that touches it.

Everything else is given a `Files`, so that a test can pass one that runs out of space, lies about a write or loses
what was not synced (`tidelog.testing.faulty_files`).  All calls are blocking; a page-cache read or write is fine on
the event loop, `datasync`, `sync_directory` and `remove_tree` belong in a thread.
"""

import contextlib
import errno
import fcntl
import mmap
import os
from typing import Protocol, TypeAlias

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700
"""What is in a log is for whoever runs the broker; directories that were there before keep what their owner has given them."""

Buffer: TypeAlias = bytes | bytearray | memoryview


class File(Protocol):
    """An open file, read and written by position.

    It is closed when the last reference to it is gone, so that whoever reads from it can finish although the log
    has let go of it.
    """

    path: str

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes at `position`; fewer at the end of the file."""
        ...

    def pread_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from `position` on; returns how many bytes there were."""
        ...

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data`, or raise `OSError`; after an error any part of it may be in the file."""
        ...

    def datasync(self) -> None:
        """Return when everything written so far is on the disk."""
        ...

    def truncate(self, size: int) -> None: ...

    def allocate(self, size: int) -> None:
        """Claim the disk space of `size` bytes; what is not written yet reads as zeros."""
        ...

    def size(self) -> int: ...

    def fileno(self) -> int: ...

    def map(self) -> mmap.mmap:
        """The whole file, mapped for reading; it must not be empty."""
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    """A lock on a directory, held until released or until the process ends."""

    def release(self) -> None: ...


class Files(Protocol):
    """A file system, as far as the storage engine needs one.  Failures are `OSError`."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; without `create` the file must exist."""
        ...

    def read(self, path: str) -> bytes:
        """All bytes of a (small) file."""
        ...

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Write a whole small file so that a crash leaves either the old content or the new."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def sizes(self, directory: str) -> dict[str, int]:
        """Names and sizes of the files in a directory."""
        ...

    def directories(self, directory: str) -> list[str]:
        """Names of the directories in a directory."""
        ...

    def make_directory(self, path: str) -> None:
        """Create it with its parents; fine if it exists."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file; fine if there is none."""
        ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Return when creations, renames and removals in the directory are on the disk."""
        ...

    def lock(self, path: str) -> Lock:
        """Take the lock file at `path`; `AlreadyLocked` when another process has it."""
        ...


def no_descriptor(error: OSError) -> bool:
    """Whether a file could not be opened because too many are open: nothing was done to it."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def will_pass(error: OSError) -> bool:
    """Whether the disk is sound, only full, or not reached for want of a descriptor."""
    return no_descriptor(error) or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class AlreadyLocked(OSError):
    """Another process holds the lock; `holder` is its process id, if it can be told."""

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(errno.EAGAIN, f"locked by process {holder or 'unknown'}", path)
        self.holder = holder


class LocalFile:
    """A file of this machine."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def pread(self, length: int, position: int) -> bytes:
        return os.pread(self._fd, length, position)

    def pread_into(self, buffer: memoryview, position: int) -> int:
        return os.preadv(self._fd, (buffer,), position)

    def pwrite(self, data: Buffer, position: int) -> None:
        written = os.pwrite(self._fd, data, position)
        if written != len(data):
            self._write_rest(memoryview(data)[written:], position + written)

    def datasync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def allocate(self, size: int) -> None:
        os.posix_fallocate(self._fd, 0, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def fileno(self) -> int:
        return self._fd

    def map(self) -> mmap.mmap:
        return mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        # Readers may outlive the log's own reference; the last one closes.
        with contextlib.suppress(OSError):
            self.close()

    def _write_rest(self, rest: memoryview, position: int) -> None:
        # The kernel cuts a write short when the disk is nearly full; the next attempt tells the reason.
        while rest:
            written = os.pwrite(self._fd, rest, position)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            rest = rest[written:]
            position += written


class LocalLock:
    """A flock on a file that names its holder."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class LocalFiles:
    """The file system of this machine."""

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return LocalFile(path, os.open(path, flags, PRIVATE_FILE))

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace(self, path: str, data: bytes, *, sync: bool = True) -> None:
        replace_atomically(self, path, data, sync=sync)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def sizes(self, directory: str) -> dict[str, int]:
        found = {}
        with os.scandir(directory) as entries:
            for each in entries:
                # What is deleted is removed by a thread, between our look at the names and that at the sizes perhaps.
                with contextlib.suppress(FileNotFoundError):
                    if each.is_file():
                        found[each.name] = each.stat().st_size
        return found

    def directories(self, directory: str) -> list[str]:
        with os.scandir(directory) as entries:
            return [each.name for each in entries if each.is_dir()]

    def make_directory(self, path: str) -> None:
        os.makedirs(path, PRIVATE_DIRECTORY, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        import shutil  # with all its archive formats: a start can do without

        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> Lock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise AlreadyLocked(path, holder) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        return LocalLock(fd)


def replace_atomically(files: Files, path: str, data: bytes, *, sync: bool) -> None:
    """Write beside, sync, rename over, sync the directory: the recipe behind `Files.replace`."""
    beside = path + ".tmp"
    file = files.open(beside, create=True)
    try:
        file.truncate(0)
        file.pwrite(data, 0)
        if sync:
            file.datasync()
    finally:
        file.close()
    files.rename(beside, path)
    if sync:
        files.sync_directory(os.path.dirname(path))
