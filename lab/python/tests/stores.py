"""Stores that fail as real ones do. Workers import this module too."""

import os
import signal

import fsspec
from fsspec.implementations.local import LocalFileSystem


class Store(LocalFileSystem):
    """A folder that writes whole objects, as object stores do."""

    auto_mkdir = True

    def failing(self, path: str) -> None:
        """Raises the error of this store, if it has one for the path."""

    def pipe_file(self, path, value, **kwargs):
        self.failing(path)
        super().pipe_file(path, value, **kwargs)


class Flaky(Store):
    """A store on which every third write of a process fails."""

    protocol = ("flaky",)
    writes = 0

    def failing(self, path):
        Flaky.writes += 1
        if Flaky.writes % 3 == 0:
            raise OSError("the connection was reset by the store")


class Broken(Store):
    """A store that refuses all parts of one policy."""

    protocol = ("broken",)

    def failing(self, path):
        if "policy=freehold" in path:
            raise OSError("the store has no room for this")


class Deadly(Store):
    """A store with a recording that kills the process that reads it."""

    protocol = ("deadly",)

    def cat_file(self, path, **kwargs):
        if path.endswith("deadly.parquet"):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().cat_file(path, **kwargs)


for store in (Flaky, Broken, Deadly):
    fsspec.register_implementation(store.protocol[0], store, clobber=True)


def impatient() -> None:
    """Removes the pauses between attempts on a store."""
    from freehold import _store

    _store.PAUSES[:] = [0.0] * len(_store.PAUSES)


def pretending(version: str) -> None:
    """Makes this process pretend to have another version of Freehold."""
    from freehold import _chunk

    _chunk.program = lambda: version


def honest() -> None:
    """Restores the true version of this process."""
    from freehold import _chunk
    from freehold._freehold import SweepPlan

    _chunk.program = SweepPlan.program
