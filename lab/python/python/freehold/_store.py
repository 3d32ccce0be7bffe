"""Stores, from which recordings are read and to which parts are written: a folder, or any file system of fsspec.

A part is in its place as a whole or not at all. If a store moves files atomically, a part is written under a temporary
name in `_making` and then moved. Object stores show an object only when it is complete. A failed operation is tried
again a few times; the last error is then raised.
"""

import os
import re
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator, Mapping, Optional, TypeVar

from ._errors import InputError

T = TypeVar("T")

# File with the plan of the results, and folder of unfinished parts.
MANIFEST = "_plan.json"
MAKING = "_making"

# Random characters after the name of an unfinished part. The names are those of the command, so that a sweep by either
# removes the unfinished parts of the other.
UNIQUE = 6
HALF_MADE = re.compile(f"[0-9a-f]{{32}}[0-9A-Za-z]{{{UNIQUE}}}")

# Seconds to wait before each new attempt.
PAUSES = [0.1, 0.5, 2.0]

# Protocols of stores that move files atomically. All other stores are assumed to write whole objects.
MOVING = {"file", "local", "sftp", "ssh", "hdfs", "arrow_hdfs", "smb"}

# Errors that a new attempt does not change.
FINAL = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)

# Number of parts that are read at the same time.
AT_ONCE = 16


def patiently(ask: Callable[[], T]) -> T:
    """Returns the result of an operation on a store, which is tried a few times if it fails."""
    for pause in PAUSES:
        try:
            return ask()
        except FINAL:
            raise
        except Exception:
            time.sleep(pause)
    return ask()


def opened(url: str, options: Mapping[str, Any]) -> "tuple[Any, str]":
    """Returns the file system of a URL, and the path in it."""
    from fsspec.core import url_to_fs  # type: ignore[import-untyped, unused-ignore]

    try:
        system, path = url_to_fs(url, **options)
    except (ImportError, ValueError) as error:
        raise InputError(f"cannot open {url}: {error}") from None
    return system, path


class Store:
    """A folder of results. It can be pickled, and each worker opens its own copy."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = url
        self._system, self._root = opened(url, options)
        self._root = self._root.rstrip("/")

    @property
    def folder(self) -> Optional[str]:
        """The path of the store, if it is a folder of this machine; else None."""
        return self._root if self._is("file") else None

    def read(self, name: str) -> Optional[bytes]:
        """Returns the bytes of a part; None if there is none."""
        try:
            found: bytes = patiently(lambda: self._system.cat_file(self._path(name)))
            return found
        except FileNotFoundError:
            return None

    def put(self, name: str, number: str, part: bytes) -> None:
        """Writes the part of the task with this number to its place."""
        patiently(lambda: self._moved(name, number, part) if self._is(*MOVING) else self._whole(name, part))

    def manifest(self) -> Optional[str]:
        """Returns the manifest of the plan of the results; None if the store is empty.

        Raises InputError if the store contains something else.
        """
        found = self.read(MANIFEST)
        if found is not None:
            return found.decode("utf-8", "replace")
        for name in self._names():
            if not name.startswith("_"):
                raise InputError(f"{self.url} contains files that are not results of a sweep; name another with into=")
        return None

    def claim(self, manifest: str) -> None:
        """Writes the plan into the store."""
        self.put(MANIFEST, "plan", manifest.encode())

    def parts(self) -> Iterator["tuple[str, bytes]"]:
        """Yields the names and the bytes of all parts, which are read in batches."""
        self._system.invalidate_cache()
        below = len(self._root) + 1
        found = sorted(path[below:] for path in self._system.find(self._root))
        names = [name for name in found if name.endswith(".parquet") and not _is_beside(name)]
        with ThreadPoolExecutor(AT_ONCE) as readers:
            for first in range(0, len(names), 4 * AT_ONCE):
                some = names[first : first + 4 * AT_ONCE]
                for name, part in zip(some, readers.map(self.read, some)):
                    if part is not None:
                        yield f"{self._root}/{name}", part

    def conclude(self) -> None:
        """Removes the unfinished parts of workers that died, and nothing else."""
        try:
            for path in self._system.ls(self._path(MAKING), detail=False):
                if HALF_MADE.fullmatch(path.rsplit("/", 1)[-1]):
                    self._system.rm_file(path)
            # The folder stays if it contains other files.
            self._system.rmdir(self._path(MAKING))
        except Exception:
            # The folder does not exist, or another sweep removes it. Neither affects the results.
            pass

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _is(self, *protocols: str) -> bool:
        own = self._system.protocol
        return any(protocol in protocols for protocol in ([own] if isinstance(own, str) else own))

    def _names(self) -> "list[str]":
        self._system.invalidate_cache()
        try:
            return [path.rstrip("/").rsplit("/", 1)[-1] for path in self._system.ls(self._root, detail=False)]
        except FileNotFoundError:
            return []

    def _whole(self, name: str, part: bytes) -> None:
        path = self._path(name)
        self._system.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        self._system.pipe_file(path, part)

    def _moved(self, name: str, number: str, part: bytes) -> None:
        making, path = self._path(f"{MAKING}/{number}{secrets.token_hex(UNIQUE // 2)}"), self._path(name)
        for folder in (making, path):
            self._system.makedirs(folder.rsplit("/", 1)[0], exist_ok=True)
        with self._system.open(making, "wb") as file:
            file.write(part)
            file.flush()
            if self._is("file"):
                os.fsync(file.fileno())
        self._system.mv(making, path)


def _is_beside(name: str) -> bool:
    return any(folder.startswith("_") for folder in name.split("/"))
