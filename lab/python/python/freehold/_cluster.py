"""A sweep on the workers of a Dask cluster.

The client submits chunks of tasks, a few for each thread of a worker and never all at once, and adds up their tallies.
It reads no recordings. Work that the cluster loses is run again on another worker. This is safe, because a part either
exists or not, and has the same bytes on every worker. A task that fails for good is reported, and the others continue.

Design: Dask distributes the tasks, notices workers that died, and repeats their work. Stores are those that fsspec
supports. Both packages are needed only if a client is given. Only the plan's text and positions in its list of tasks
are sent. Workers read the recordings and write the parts, and the client receives tallies alone. The few submitted
chunks for each thread bound the work of the scheduler. A worker checks for a part right before it makes the part, as
on one machine. So nothing is listed beforehand, and a resumed sweep needs no code of its own. A chunk that kills
workers is divided into single tasks; a task that kills a worker again is reported by name.
"""

import functools
import ipaddress
import socket
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Union

from . import _chunk
from ._chunk import Piece, Source, Tally
from ._chunks import Chunks
from ._errors import CallError, Error, InputError, SystemFailure
from ._freehold import SweepPlan
from ._progress import Progress
from ._store import Store, opened

# Submitted chunks for each thread: one that runs, and one that waits.
UNDER_WAY = 2

# Number of recordings that one job computes digests of.
LOOKED_AT = 16

# Protocols of Dask that are encrypted with certificates, or local to this process.
PRIVATE = ("tls", "wss", "inproc")

# Extension of recordings.
ENDING = ".parquet"


def sweep(
    client: Any,
    plan: SweepPlan,
    recordings: "list[str]",
    into: str,
    options: Mapping[str, Any],
    retries: int,
    insecure: bool,
    progress: bool,
) -> "tuple[list[tuple[str, str]], list[str], Store]":
    """Runs all tasks that are not done yet. Returns failures, repeated recordings, and the store of the results."""
    expect_client(client)
    if not insecure:
        expect_private(client)
    store = Store(into, options)
    if plan.takes_recordings and not recordings:
        raise InputError("the plan replays recordings, but none is given; name some with recordings=")
    if recordings and not plan.takes_recordings:
        raise InputError("the plan simulates, but recordings are given; remove them")
    expect_same_program(client)
    claim(store, plan)
    sources, failures = found(recordings, options)
    run = _Run(client, plan, store, retries, Progress() if progress else None)
    try:
        sources, repeated = run.without_repeated(sources)
        failures += run.all_of(sources if plan.takes_recordings else [None])
    finally:
        run.close()
    if not failures:
        store.conclude()
    return sorted(set(failures)), repeated, store


def expect_client(client: Any) -> None:
    """Refuses an object that is not a synchronous client of Dask."""
    from distributed import Client

    if not isinstance(client, Client):
        raise CallError(f"sweep(): client must be a distributed.Client, not {type(client).__name__}")
    if client.asynchronous:
        raise CallError("sweep(): client must be synchronous; create it without asynchronous=True")


def expect_private(client: Any) -> None:
    """Refuses a scheduler that other machines reach without encryption, because any client can run code on it."""
    connected = getattr(client.scheduler, "address", None)
    announced = _asked(client.scheduler_info).get("address")
    for address in (connected, announced):
        if address is not None and not is_private(address):
            raise InputError(
                f"the scheduler at {address} is reached without encryption, and every client that connects to it can "
                "run code on the cluster; use TLS (docs/cluster.md), or give insecure=True on a network that you trust"
            )


def is_private(address: str) -> bool:
    """Returns whether an address is encrypted, or reachable only from this machine."""
    from distributed.comm.addressing import parse_address, parse_host_port

    protocol, location = parse_address(address)
    if protocol in PRIVATE:
        return True
    host, _ = parse_host_port(location, 0)
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(one.partition("%")[0]).is_loopback for one in found)


def expect_same_program(client: Any) -> None:
    """Refuses workers with another version of Freehold, because their results could differ."""
    ours = _chunk.program()
    for worker, theirs in sorted(_asked(lambda: client.run(_chunk.program, on_error="return")).items()):
        if isinstance(theirs, BaseException):
            said = " ".join(str(theirs).split())
            raise InputError(f"the worker {worker} has no working freehold ({said}); install the same wheel there")
        if theirs != ours:
            raise InputError(f"the worker {worker} has freehold {theirs}, and not {ours}; install the same there")


def claim(store: Store, plan: SweepPlan) -> None:
    """Writes the plan into the store, or refuses a store with other contents."""
    if store.folder is not None:
        # For a folder of this machine, one call checks the contents and writes the plan.
        plan.claim(store.folder)
        return
    there = store.manifest()
    if there is None:
        store.claim(plan.manifest)
        there = store.manifest() or ""
    difference = plan.difference(there)
    if difference is not None:
        raise InputError(f"{store.url} {difference}; name another with into=")


def found(recordings: "list[str]", options: Mapping[str, Any]) -> "tuple[list[Source], list[tuple[str, str]]]":
    """Returns the recordings of these URLs, globs and folders, the largest first; and failures for missing ones."""
    sources: "dict[tuple[Any, str], Source]" = {}
    failures: "list[tuple[str, str]]" = []
    for url in recordings:
        system, path = opened(url, options)
        try:
            entries = list(_entries(system, path, url))
        except (OSError, ValueError) as error:
            failures.append((url, f"cannot be read: {' '.join(str(error).split())}"))
            continue
        for name, size in entries:
            sources[system, name] = Source(system, name, size)
    in_order = sorted(sources.values(), key=lambda source: (-(source.size or 0), source.path))
    return in_order, failures


def _entries(system: Any, path: str, url: str) -> "Iterator[tuple[str, Optional[int]]]":
    try:
        there = system.info(path)
    except FileNotFoundError:
        # The name of an existing file is never used as a glob.
        matched = system.glob(path, detail=True) if any(letter in path for letter in "*?[") else {}
        if not matched:
            raise FileNotFoundError(f"{url} does not exist") from None
        yield from _files(matched.values())
        return
    if there["type"] != "directory":
        yield there["name"], there.get("size")
        return
    files = [entry for entry in system.ls(path, detail=True) if entry["name"].endswith(ENDING)]
    if not files:
        raise FileNotFoundError(f"there is no recording in {url}; name another folder")
    yield from _files(files)


def _files(entries: "Iterable[Any]") -> "Iterator[tuple[str, Optional[int]]]":
    for entry in entries:
        if entry["type"] != "directory":
            yield entry["name"], entry.get("size")


class _Run:
    """A running sweep."""

    def __init__(
        self, client: Any, plan: SweepPlan, store: Store, retries: int, progress: "Optional[Progress]"
    ) -> None:
        self._client, self._plan, self._store, self._retries = client, plan, store, retries
        self._manifest = plan.manifest
        self._progress = progress
        self._under_way: "dict[Any, Any]" = {}
        self._stage = 0

    def close(self) -> None:
        """Cancels the submitted chunks, if there are any."""
        if self._progress is not None:
            self._progress.close()
        if self._under_way:
            try:
                self._client.cancel(list(self._under_way))
            except Exception:
                # The scheduler is gone, and the chunks with it.
                pass

    def without_repeated(self, sources: "list[Source]") -> "tuple[list[Source], list[str]]":
        """Returns the distinct recordings, and the repeated ones. Only recordings of equal size need a digest."""
        of_size: "dict[Optional[int], list[Source]]" = {}
        for source in sources:
            of_size.setdefault(source.size, []).append(source)
        doubtful = [source for size, some in of_size.items() if size is None or len(some) > 1 for source in some]
        batches = iter([doubtful[at : at + LOOKED_AT] for at in range(0, len(doubtful), LOOKED_AT)])
        called: "dict[Source, Optional[str]]" = {}

        def look(threads: int) -> "Optional[tuple[Any, Any]]":
            batch = next(batches, None)
            return None if batch is None else (batch, self._submit(_chunk.digests, batch))

        def note(batch: Any, outcome: Any) -> int:
            if not isinstance(outcome, BaseException):
                called.update(zip(batch, outcome))
            return len(batch)

        self._flow(look, note, "comparing recordings", len(doubtful), "recordings")
        seen: "set[str]" = set()
        kept: "list[Source]" = []
        repeated: "list[str]" = []
        for source in sources:
            digest = called.get(source)
            if digest is not None and digest in seen:
                repeated.append(source.path)
                continue
            seen.update([] if digest is None else [digest])
            kept.append(source)
        return kept, sorted(repeated)

    def all_of(self, sources: "Iterable[Optional[Source]]") -> "list[tuple[str, str]]":
        """Runs all tasks, and returns the failures."""
        sources = list(sources)
        chunks = Chunks(sources, self._plan.tasks_max)
        failures: "list[tuple[str, str]]" = []

        def hand_out(threads: int) -> "Optional[tuple[Any, Any]]":
            if not chunks or (chunks.is_doubtful and self._under_way):
                return None
            is_alone, pieces = chunks.is_doubtful, chunks.next(threads)
            return (is_alone, pieces), self._submit(_chunk.do, self._manifest, self._store, pieces)

        def take_in(given: "tuple[bool, list[Piece]]", outcome: "Union[Tally, BaseException]") -> int:
            is_alone, pieces = given
            if not isinstance(outcome, BaseException):
                if outcome.refusal is not None:
                    raise InputError(outcome.refusal)
                failures.extend(outcome.failures)
                chunks.measured(pieces, outcome.seconds)
            elif not is_alone:
                # A task of this chunk, or of another one on the same worker, killed it. Each task now runs alone.
                chunks.again(pieces)
                return 0
            else:
                name = self._plan.title if pieces[0].source is None else pieces[0].source.path
                failures.append((name, f"the cluster gave up this task: {_said(outcome)}"))
            return sum(piece.count for piece in pieces)

        self._flow(hand_out, take_in, self._plan.title, len(sources) * self._plan.tasks_max, "tasks")
        return failures

    def _submit(self, function: Any, *given: Any) -> Any:
        # `pure=False` gives each chunk a unique key. Equal chunks of two sweeps on one cluster would share a result.
        return self._client.submit(function, *given, pure=False, retries=self._retries)

    def _flow(
        self,
        begin: "Callable[[int], Optional[tuple[Any, Any]]]",
        end: "Callable[[Any, Any], int]",
        what: str,
        total: int,
        unit: str,
    ) -> None:
        """Submits jobs from `begin`, a few for each thread, and passes each outcome to `end`, until none are left."""
        from distributed import as_completed

        completed: Any = as_completed()  # type: ignore[no-untyped-call, unused-ignore]
        done, has_more = 0, True
        self._stage += 1
        while True:
            threads = max(1, sum(_asked(self._client.nthreads).values()))
            while has_more and len(self._under_way) < UNDER_WAY * threads + 1:
                begun = begin(threads)
                if begun is None:
                    has_more = False
                    break
                given, future = begun
                self._under_way[future] = given
                completed.add(future)
            if not self._under_way:
                return
            for future in [_asked(lambda: next(completed)), *completed.next_batch(block=False)]:
                outcome = _asked(functools.partial(_outcome, future))
                done += end(self._under_way.pop(future), outcome)
                has_more = True
            if self._progress is not None:
                self._progress.show([(self._stage, what, done, total, unit)])


GONE = "the connection to the scheduler is lost; repeat the call with another cluster, which keeps finished tasks"


def _asked(ask: "Callable[[], Any]") -> Any:
    """Returns the result of a request to the cluster. Raises SystemFailure if the cluster is gone."""
    try:
        return ask()
    except (OSError, StopIteration) as error:
        raise SystemFailure(GONE) from error
    except Exception as error:
        if isinstance(error, Error) or "Cancelled" not in type(error).__name__:
            raise
        raise SystemFailure(GONE) from error


def _outcome(future: Any) -> Any:
    """Returns the result of a job, or the exception that it failed with."""
    if future.status == "finished":
        return future.result()
    if future.status == "error":
        return future.exception()
    raise SystemFailure(GONE)


def _said(error: Any) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
