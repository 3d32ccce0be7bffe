"""Stores that fail as real ones do. Workers import this too."""

import os
import signal

import fsspec
from fsspec.implementations.local import LocalFileSystem


class Store(LocalFileSystem):
    """A folder that puts whole objects."""

    auto_mkdir = True

    def failing(self, path: str) -> None:
        """Fails where this store does."""

    def pipe_file(self, path, value, **kwargs):
        self.failing(path)
        super().pipe_file(path, value, **kwargs)


class Flaky(Store):
    """Every third write of a process fails once."""

    protocol = ("flaky",)
    writes = 0

    def failing(self, path):
        Flaky.writes += 1
        if Flaky.writes % 3 == 0:
            raise OSError("the connection was reset by the store")


class Broken(Store):
    """What belongs to one policy is never taken."""

    protocol = ("broken",)

    def failing(self, path):
        if "policy=freehold" in path:
            raise OSError("the store has no room for this")


class Deadly(Store):
    """Who reads this recording dies."""

    protocol = ("deadly",)

    def cat_file(self, path, **kwargs):
        if path.endswith("deadly.parquet"):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().cat_file(path, **kwargs)


for store in (Flaky, Broken, Deadly):
    fsspec.register_implementation(store.protocol[0], store, clobber=True)


def impatient() -> None:
    """Asks stores once more without waiting."""
    from freehold import _store

    _store.PAUSES[:] = [0.0] * len(_store.PAUSES)


def pretending(version: str) -> None:
    """Makes this process one of another version."""
    from freehold import _chunk

    _chunk.program = lambda: version


def honest() -> None:
    """Makes it what it is."""
    from freehold import _chunk
    from freehold._freehold import SweepPlan

    _chunk.program = SweepPlan.program
