# Written by `cargo run -p freehold-python --example stubs`, from the definition of the command line. Do not edit.
"""The laboratory's commands as functions, what they answer, and recordings."""

import os
from pathlib import Path
from typing import Any, Iterable, Iterator, Literal, Sequence, Union, final

_StrPath = Union[str, os.PathLike[str]]

__version__: str

@final
class Table:
    """A table of an answer: whatever reads Arrow reads it, without a copy.

    `polars.DataFrame(table)`, `pyarrow.table(table)`, `pandas.DataFrame.from_arrow(table)`, and DuckDB by its name.
    """

    @property
    def title(self) -> str:
        """What it shows."""

    @property
    def about(self) -> str:
        """What its columns are, where their names do not say it."""

    @property
    def conclusions(self) -> list[str]:
        """What follows from it, in sentences."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Report:
    """What a command answers. A notebook shows it as the page that `--html` writes, `print` as a terminal does."""

    def json(self) -> str:
        """The text that `--json` writes."""

    @property
    def dict(self) -> dict[str, Any]:
        """The same, read."""

    def html(self) -> str:
        """The page that `--html` writes: one file, which asks no network for anything."""

    @property
    def text(self) -> str:
        """What a terminal shows, without colours."""

    @property
    def verdict(self) -> list[str]:
        """What was found, in sentences."""

    @property
    def failures(self) -> list[tuple[str, str]]:
        """Of a sweep: what could not be done, by name, and why. The report stands on the rest."""

    @property
    def tables(self) -> list[Table]:
        """Its tables."""

    @property
    def measures(self) -> Table:
        """Everything that was measured under A and under B: a row a measure and case.

        Where there are several cases, a row without `of` has what they give together, and `cases` says how many of
        them it stands on. `change` is (b - a) / |a|, and `low` to `high` its interval where there is one.
        """

    def _repr_html_(self) -> str: ...

@final
class Rows:
    """Rows of a recording, decoded, for whatever reads Arrow. They are read batch by batch, each time anew.

    Columns: `time` in nanoseconds since the start; `cpu`; `pid` and `task`, the task's name; `kind`; `pfn`, the frame,
    null where a row names none; `order`; `gfp`, the flags as Linux prints them, null where there are none;
    `migratetype`; and `arg0` to `arg2`, which mean what the kind says (lab/trace/FORMAT.md).
    """

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Recording:
    """A recording: what it says of the machine, and its rows."""

    def __new__(cls, path: _StrPath) -> Recording: ...
    @property
    def path(self) -> Path:
        """The file."""

    @property
    def facts(self) -> dict[str, Any]:
        """What the recording says of the machine (lab/trace/FORMAT.md)."""

    def __fspath__(self) -> str:
        """Its path, since a recording may stand wherever its file may."""

    def __len__(self) -> int:
        """Number of its rows: events, and the state at both ends."""

    def events(self) -> Rows:
        """What the kernel's allocator did, in order of time."""

    def start(self) -> Rows:
        """The state of memory when it started: free blocks, allocated ones, pageblocks."""

    def end(self) -> Rows:
        """The state of memory when it ended."""

@final
class SweepPlan:
    """A plan of a sweep: what `freehold.sweep` is made of, and nobody else."""

    @staticmethod
    def open(path: _StrPath) -> SweepPlan:
        """The plan in a file."""

    @staticmethod
    def of_manifest(manifest: str) -> SweepPlan:
        """The plan that another process wrote down; refused if that was another version."""

    @staticmethod
    def program() -> str:
        """Version and commit of this program."""

    @property
    def title(self) -> str: ...
    @property
    def manifest(self) -> str:
        """All of the plan: what stands in the folder of its results, and goes to whoever works on it elsewhere."""

    @property
    def takes_recordings(self) -> bool: ...
    @property
    def tasks_max(self) -> int:
        """How many tasks there are: of each recording at most, or in all."""

    def difference(self, manifest: str) -> str | None:
        """Why results under this manifest are not the plan's, as words that follow the folder's name."""

    def claim(self, into: _StrPath) -> None:
        """Makes a folder of this machine the one for the plan's results."""

    def sweep_here(
        self, recordings: Sequence[_StrPath], into: _StrPath, jobs: int | None, progress: bool
    ) -> tuple[list[tuple[str, str]], list[str]]:
        """Does all tasks that are not done yet, here: failures, and recordings that are another one again."""

    def report_here(
        self, into: _StrPath, failures: list[tuple[str, str]], margin: float, all: bool, progress: bool
    ) -> Report:
        """What the parts in a folder of this machine say."""

    def report(
        self,
        parts: Iterator[tuple[str, bytes]],
        into: str,
        failures: list[tuple[str, str]],
        margin: float,
        all: bool,
    ) -> Report:
        """What parts say, in any order."""

@final
class SweepWorker:
    """Whoever does the tasks of one recording, or of a plan that takes none. Several threads may share it."""

    def __new__(cls, plan: SweepPlan, recording: tuple[str, bytes] | None = None) -> SweepWorker: ...
    def __len__(self) -> int:
        """Number of the tasks."""

    def task(self, place: int) -> tuple[str, str]:
        """Number of a task, and where its part lies in the dataset."""

    def found(self, place: int, bytes: bytes) -> Literal["whole", "damaged", "strange"]:
        """What lies where a task's part is to be: `strange` is another task's."""

    def run(self, place: int) -> bytes:
        """Does a task: the bytes of its part."""
