"""Where recordings are read and parts are put: a folder, or anything that fsspec knows.

A part lies in its place whole or not at all. Where a store moves files in one step, a part is written under another
name in `_making` and moved; object stores show nothing of an object before it is whole. What a store refuses is tried
again, a few times; whoever still gets no answer learns the store's last words.
"""

import os
import re
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator, Mapping, Optional, TypeVar

from ._errors import InputError

T = TypeVar("T")

# Where the plan of all results stands, and where parts are before they have their places.
MANIFEST = "_plan.json"
MAKING = "_making"

# Letters behind the name of what is half made: named as the command names it, so that either clears up after the other.
UNIQUE = 6
HALF_MADE = re.compile(f"[0-9a-f]{{32}}[0-9A-Za-z]{{{UNIQUE}}}")

# Seconds to wait before a store is asked once more.
PAUSES = [0.1, 0.5, 2.0]

# Stores that move a file within themselves in one step. All others are taken for ones that put whole objects.
MOVING = {"file", "local", "sftp", "ssh", "hdfs", "arrow_hdfs", "smb"}

# Answers that asking once more does not change.
FINAL = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)

# Parts that are read at a time.
AT_ONCE = 16


def patiently(ask: Callable[[], T]) -> T:
    """What a store answers, asked a few times if it fails."""
    for pause in PAUSES:
        try:
            return ask()
        except FINAL:
            raise
        except Exception:
            time.sleep(pause)
    return ask()


def opened(url: str, options: Mapping[str, Any]) -> "tuple[Any, str]":
    """The file system of a URL, and the path in it."""
    from fsspec.core import url_to_fs  # type: ignore[import-untyped, unused-ignore]

    try:
        system, path = url_to_fs(url, **options)
    except (ImportError, ValueError) as error:
        raise InputError(f"cannot open {url}: {error}") from None
    return system, path


class Store:
    """A folder of results. It travels to workers, each of which opens it for itself."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = url
        self._system, self._root = opened(url, options)
        self._root = self._root.rstrip("/")

    @property
    def folder(self) -> Optional[str]:
        """The folder of this machine that it is, if it is one."""
        return self._root if self._is("file") else None

    def read(self, name: str) -> Optional[bytes]:
        """The bytes of a part; nothing if there is none."""
        try:
            found: bytes = patiently(lambda: self._system.cat_file(self._path(name)))
            return found
        except FileNotFoundError:
            return None

    def put(self, name: str, number: str, part: bytes) -> None:
        """Puts the part of the task of this number into its place."""
        patiently(lambda: self._moved(name, number, part) if self._is(*MOVING) else self._whole(name, part))

    def manifest(self) -> Optional[str]:
        """The plan whose results it holds; nothing if it holds nothing.

        Raises InputError if it holds something else.
        """
        found = self.read(MANIFEST)
        if found is not None:
            return found.decode("utf-8", "replace")
        for name in self._names():
            if not name.startswith("_"):
                raise InputError(f"{self.url} holds something else than the results of a sweep; name another by into=")
        return None

    def claim(self, manifest: str) -> None:
        """Puts the plan into it."""
        self.put(MANIFEST, "plan", manifest.encode())

    def parts(self) -> Iterator["tuple[str, bytes]"]:
        """Names and bytes of all parts, some of them read at a time."""
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
        """Removes what workers that died left half made, and nothing else."""
        try:
            for path in self._system.ls(self._path(MAKING), detail=False):
                if HALF_MADE.fullmatch(path.rsplit("/", 1)[-1]):
                    self._system.rm_file(path)
            # It stays if something else is in it.
            self._system.rmdir(self._path(MAKING))
        except Exception:
            # There is none, or another sweep is about to remove it: nobody reads it.
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
