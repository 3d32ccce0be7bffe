"""The function `sweep`, which can run on a cluster, unlike its command."""

import difflib
import functools
import glob
import inspect
import os
import warnings
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, TypeVar, Union, cast

from ._errors import CallError, InputError, MissingPackageError
from ._freehold import Report, SweepPlan

if TYPE_CHECKING:
    from distributed import Client

StrPath = Union[str, "os.PathLike[str]"]
Function = TypeVar("Function", bound=Callable[..., Any])

# Most failures that a warning names.
NAMED = 10


class SweepWarning(UserWarning):
    """Some recordings or tasks of a sweep failed. All of them are in `Report.failures`."""


def _suggesting(function: Function) -> Function:
    """Returns the function with a check of its keywords that suggests a similar one for an unknown one."""
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def called(*places: Any, **names: Any) -> Any:
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                more = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
                raise CallError(f"{function.__name__}() has no keyword {_shown(name)}; {more}")
        try:
            inspect.signature(function).bind(*places, **names)
        except TypeError as error:
            raise CallError(f"{function.__name__}(): {error}") from None
        return function(*places, **names)

    return cast(Function, called)


@_suggesting
def sweep(
    plan: StrPath,
    recordings: "Union[StrPath, Iterable[StrPath]]" = (),
    *,
    into: StrPath,
    client: "Optional[Client]" = None,
    jobs: Optional[int] = None,
    margin: float = 2,
    all: bool = False,
    retries: int = 3,
    storage_options: Optional[Mapping[str, Any]] = None,
    insecure: bool = False,
    progress: bool = True,
) -> Report:
    """Run the replays or simulations of a plan, write them to one dataset, and report the combined result.

    Args:
        plan: The plan, a TOML file
        recordings: Recordings, folders of recordings, or globs; with a client also URLs that fsspec supports
        into: Folder for the results; with a client also a URL. Results of the same plan in it are kept
        client: The cluster that runs the sweep; without a client, this machine runs it
        jobs: Without a client: largest number of tasks at a time; by default the number of CPUs
        margin: Relative changes of replays up to this are no change, in percent
        all: Show everything: unchanged measures, tables and assumptions
        retries: With a client: number of times that a lost chunk of tasks is repeated
        storage_options: With a client: options of fsspec to open recordings and results
        insecure: With a client: use a scheduler without encryption, on a trusted network
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal

    Finished tasks are kept: an interrupted sweep resumes when it is called again. A warning names the recordings that
    cannot be read and the tasks that failed, which are also in `Report.failures`. The other tasks are done.
    """
    _expect_types(
        ("plan", plan, (str, os.PathLike), "a str or an os.PathLike"),
        ("into", into, (str, os.PathLike), "a str or an os.PathLike"),
        ("jobs", jobs, (int, type(None)), "an int"),
        ("margin", margin, (int, float), "a float"),
        ("all", all, bool, "a bool"),
        ("retries", retries, int, "an int"),
        ("storage_options", storage_options, (Mapping, type(None)), "a dict"),
        ("insecure", insecure, bool, "a bool"),
        ("progress", progress, bool, "a bool"),
    )
    if (jobs is not None and jobs < 1) or retries < 0:
        raise InputError("sweep(): jobs must be at least 1, and retries at least 0")
    if not 0 <= margin < 100:
        raise InputError(f"the margin cannot be {margin} %; give one from 0 to below 100")
    opened, named = SweepPlan.open(plan), _named(recordings)
    if client is None:
        if storage_options is not None:
            raise CallError("sweep(): storage_options need a client, since only a client reads stores; remove them")
        if insecure:
            raise CallError("sweep(): insecure needs a client, since it is about a scheduler's connection; remove it")
        files = [file for name in named for file in _matched(name)]
        failures, repeated = opened.sweep_here(files, into, jobs, progress)
        _warn(failures, repeated)
        return opened.report_here(into, failures, float(margin), all, progress)
    if jobs is not None:
        raise CallError("sweep(): jobs is for this machine only; a cluster's workers set the number; remove it")
    cluster = _cluster()
    failures, repeated, store = cluster.sweep(
        client, opened, named, os.fspath(into), storage_options or {}, retries, insecure, progress
    )
    _warn(failures, repeated)
    return opened.report(store.parts(), store.url, failures, float(margin), all)


def _cluster() -> Any:
    """Imports the module for clusters, which needs additional packages."""
    try:
        import distributed  # noqa: F401
        import fsspec  # type: ignore[import-untyped, unused-ignore]  # noqa: F401
    except ImportError as error:
        sentence = f"sweep(): client= needs {error.name}; install it by: pip install 'freehold[cluster]'"
        raise MissingPackageError(sentence) from None
    from . import _cluster

    return _cluster


def _expect_types(*parameters: "tuple[str, Any, Any, str]") -> None:
    for name, value, types, called in parameters:
        # Python counts a bool as an int; an option of type int does not accept it.
        is_bool = isinstance(value, bool) and types is not bool
        if is_bool or not isinstance(value, types):
            raise CallError(f"sweep(): {name} must be {called}, not {type(value).__name__}")


def _named(recordings: Any) -> "list[str]":
    """Returns the recordings as a list of texts."""
    of_one = isinstance(recordings, (str, os.PathLike))
    try:
        given = [recordings] if of_one else list(recordings)
        if isinstance(recordings, (bytes, Mapping)):
            raise TypeError
        names = [os.fspath(name) for name in given]
        if any(isinstance(name, bytes) for name in names):
            raise TypeError
    except TypeError:
        found = type(recordings).__name__
        raise CallError(f"sweep(): recordings must be a str or an os.PathLike, or several, not {found}") from None
    return names


def _matched(name: str) -> "list[str]":
    """Returns the files that a name or glob matches. The name of an existing file is never used as a glob."""
    if "://" in name and not os.path.exists(name):
        raise InputError(f"{name} is in a store, which only a client reads; give client=, or name a file")
    if os.path.lexists(name) or not glob.has_magic(name):
        return [name]
    return sorted(glob.glob(name, recursive=True)) or [name]


def _warn(failures: "list[tuple[str, str]]", repeated: "list[str]") -> None:
    """Warns of failures and of repeated recordings."""
    lines = [f"{_shown(of)}: {_shown(why)}" for of, why in failures[:NAMED]]
    if len(failures) > NAMED:
        lines.append(f"and {len(failures) - NAMED} more in Report.failures")
    for name in repeated[:NAMED]:
        lines.append(f"{_shown(name)} is a copy of another recording, and was skipped")
    if lines:
        warnings.warn("some recordings or tasks were not done:\n" + "\n".join(lines), SweepWarning, stacklevel=4)


def _shown(text: str) -> str:
    """Returns a name with escapes in place of characters that are not safe to print."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
