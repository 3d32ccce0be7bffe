"""Execution of a chunk of tasks on a worker of a cluster, from recordings in a store to parts in a store.

The plan is sent as text, and tasks as indices in the plan's task list of a recording. Each process reads a recording
once and keeps it while its tasks run. It never holds more recordings than it has running threads. Only tallies are sent
back to the client. A chunk that runs twice writes the same bytes, so a worker may die at any time.
"""

import hashlib
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from ._errors import Error
from ._freehold import SweepPlan, SweepWorker
from ._store import Store, patiently

# Number of bytes that are read at a time.
READ = 1 << 20


@dataclass(frozen=True)
class Source:
    """A recording in a store, and its size in bytes, if the store reports it."""

    system: Any
    path: str
    size: Optional[int]


@dataclass(frozen=True)
class Piece:
    """Tasks of one recording, or of a plan without recordings, as a range of the plan's task list."""

    source: Optional[Source]
    first: int
    count: int


@dataclass
class Tally:
    """The result of a chunk."""

    kept: int = 0
    done: int = 0
    seconds: float = 0.0
    failures: "list[tuple[str, str]]" = field(default_factory=list)
    # Reason to stop the whole sweep, if there is one.
    refusal: Optional[str] = None


def program() -> str:
    """Returns the version and the commit of Freehold in this process."""
    return SweepPlan.program()


def do(manifest: str, into: Store, pieces: "list[Piece]") -> Tally:
    """Runs a chunk of tasks."""
    tally, begun = Tally(), time.monotonic()
    try:
        plan = SweepPlan.of_manifest(manifest)
    except Error as error:
        # A worker with another version, which joined after the client had checked the versions.
        tally.refusal = f"the worker {_address()} has another version of freehold: {error}; install the same one"
        return tally
    for piece in pieces:
        if tally.refusal is None:
            _do_piece(plan, manifest, into, piece, tally)
    tally.seconds = time.monotonic() - begun
    return tally


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)


def digests(sources: "list[Source]") -> "list[Optional[str]]":
    """Returns the digests of recordings; None for those that cannot be read, which fail later with a reason."""
    return [_digest(source) for source in sources]


def _digest(source: Source) -> Optional[str]:
    def read() -> str:
        summed = hashlib.sha256()
        with source.system.open(source.path, "rb") as file:
            while some := file.read(READ):
                summed.update(some)
        return summed.hexdigest()

    try:
        return patiently(read)
    except Exception:
        return None


def _do_piece(plan: SweepPlan, manifest: str, into: Store, piece: Piece, tally: Tally) -> None:
    name = plan.title if piece.source is None else piece.source.path
    try:
        with _held.borrowed((manifest, piece.source), lambda: _worker(plan, piece.source)) as worker:
            for place in range(piece.first, min(piece.first + piece.count, len(worker))):
                if tally.refusal is None:
                    _do_task(worker, place, into, name, tally)
    except Exception as error:
        tally.failures.append((name, _why(error)))


def _do_task(worker: SweepWorker, place: int, into: Store, name: str, tally: Tally) -> None:
    number, path = worker.task(place)
    try:
        there = into.read(path)
        found = "damaged" if there is None else worker.check_part(place, there)
        if found == "strange":
            tally.refusal = f"{into.url}/{path} is the result of another task; remove it, or name another with into="
        elif found == "whole":
            tally.kept += 1
        else:
            into.put(path, number, worker.run(place))
            tally.done += 1
    except Error as error:
        tally.failures.append((name, str(error)))
    except Exception as error:
        tally.failures.append((f"{into.url}/{path}", _why(error)))


def _why(error: Exception) -> str:
    """Returns the message of an error as one line, with its class if the error is not Freehold's."""
    if isinstance(error, Error):
        return str(error)
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _worker(plan: SweepPlan, source: Optional[Source]) -> SweepWorker:
    if source is None:
        return SweepWorker(plan)
    recording: bytes = patiently(lambda: source.system.cat_file(source.path))
    # A file name may contain bytes that are not UTF-8.
    name = source.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return SweepWorker(plan, (name, recording))


class _Slot:
    """A recording in memory, and the number of threads of this process that use it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.worker: Optional[SweepWorker] = None
        self.users = 0


class _Held:
    """The recordings in the memory of this process: those in use, and those used until another one is read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: "dict[Any, _Slot]" = {}

    def borrowed(self, key: Any, read: Callable[[], SweepWorker]) -> "_Loan":
        return _Loan(self, key, read)

    def take(self, key: Any) -> _Slot:
        with self._lock:
            if key not in self._slots:
                # Idle recordings are dropped before another one is read, so that only used recordings are in memory.
                for idle in [other for other, slot in self._slots.items() if slot.users == 0]:
                    del self._slots[idle]
                self._slots[key] = _Slot()
            slot = self._slots[key]
            slot.users += 1
            return slot

    def give(self, slot: _Slot) -> None:
        with self._lock:
            slot.users -= 1


class _Loan:
    """The use of a recording by a thread. The first thread reads the recording, and others wait for it."""

    def __init__(self, held: _Held, key: Any, read: Callable[[], SweepWorker]) -> None:
        self._held, self._read = held, read
        self._slot = held.take(key)

    def __enter__(self) -> SweepWorker:
        try:
            with self._slot.lock:
                if self._slot.worker is None:
                    self._slot.worker = self._read()
                return self._slot.worker
        except BaseException:
            self._held.give(self._slot)
            raise

    def __exit__(self, *_: object) -> None:
        self._held.give(self._slot)


_held = _Held()
