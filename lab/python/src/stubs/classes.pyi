# Written by `cargo run -p freehold-python --example stubs`, from the definition of the command line. Do not edit.
"""The commands of the laboratory as functions, their reports, and recordings."""

import os
from pathlib import Path
from typing import Any, Iterable, Iterator, Literal, Sequence, Union, final

_StrPath = Union[str, os.PathLike[str]]

__version__: str

@final
class Table:
    """A table of a report, which readers of Arrow read without a copy.

    `polars.DataFrame(table)`, `pyarrow.table(table)`, `pandas.DataFrame.from_arrow(table)`, and DuckDB by its name.
    """

    @property
    def title(self) -> str:
        """Title of the table."""

    @property
    def about(self) -> str:
        """Explanation of the columns, if their names need one."""

    @property
    def conclusions(self) -> list[str]:
        """Conclusions from the table, in sentences."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Report:
    """The result of a command. A notebook shows the page of `--html`, and `print` shows the text of a terminal."""

    def json(self) -> str:
        """Returns the text that `--json` writes."""

    @property
    def dict(self) -> dict[str, Any]:
        """The parsed text of `--json`."""

    def html(self) -> str:
        """Returns the page that `--html` writes: one file that loads nothing from the network."""

    @property
    def text(self) -> str:
        """The text for a terminal, without colours."""

    @property
    def verdict(self) -> list[str]:
        """The verdict, in sentences."""

    @property
    def failures(self) -> list[tuple[str, str]]:
        """Failures of a sweep: name and reason. The report uses the other results."""

    @property
    def tables(self) -> list[Table]:
        """The tables of the report."""

    @property
    def measures(self) -> Table:
        """All measures under A and under B: one row for each measure and case.

        If there are several cases, a row without `of` has their pooled result, and `cases` is the number of pooled
        cases. `change` is (b - a) / |a|, and `low` to `high` is its interval, if there is one.
        """

    def _repr_html_(self) -> str: ...

@final
class Rows:
    """Decoded rows of a recording, for readers of Arrow. Each reader reads the file again, batch by batch.

    Columns: `time` in nanoseconds since the start; `cpu`; `pid` and `task`, the task's name; `kind`; `pfn`, the frame,
    or null; `order`; `gfp`, the flags as Linux prints them, or null; `migratetype`; and `arg0` to `arg2`, whose
    meaning depends on the kind (lab/trace/FORMAT.md).
    """

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Recording:
    """A recording: facts of the machine, and rows."""

    def __new__(cls, path: _StrPath) -> Recording: ...
    @property
    def path(self) -> Path:
        """The file."""

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of the recorded machine (lab/trace/FORMAT.md)."""

    def __fspath__(self) -> str:
        """Returns the path, so that a recording can be used as a path."""

    def __len__(self) -> int:
        """Returns the number of rows: events, and the state at both ends."""

    def events(self) -> Rows:
        """Returns the events of the kernel's allocator, in order of time."""

    def start(self) -> Rows:
        """Returns the state of memory at the start: free blocks, allocated blocks, pageblocks."""

    def end(self) -> Rows:
        """Returns the state of memory at the end."""

@final
class SweepPlan:
    """A plan of a sweep, for `freehold.sweep` only."""

    @staticmethod
    def open(path: _StrPath) -> SweepPlan:
        """Reads the plan from a file."""

    @staticmethod
    def of_manifest(manifest: str) -> SweepPlan:
        """Returns the plan of a manifest that another process wrote. Another version is an error."""

    @staticmethod
    def program() -> str:
        """Returns the version and commit of this program."""

    @property
    def title(self) -> str: ...
    @property
    def manifest(self) -> str:
        """The whole plan, as in the folder of results. Workers on other machines receive it."""

    @property
    def takes_recordings(self) -> bool: ...
    @property
    def tasks_max(self) -> int:
        """The largest number of tasks of a recording, or the number of all tasks."""

    def difference(self, manifest: str) -> str | None:
        """Returns why results with this manifest are not of this plan, as words that follow the folder's name."""

    def claim(self, into: _StrPath) -> None:
        """Makes a folder of this machine the folder for the results of the plan."""

    def sweep_here(
        self, recordings: Sequence[_StrPath], into: _StrPath, jobs: int | None, progress: bool
    ) -> tuple[list[tuple[str, str]], list[str]]:
        """Runs all unfinished tasks. Returns failures, and recordings that are copies of another one."""

    def report_here(
        self, into: _StrPath, failures: list[tuple[str, str]], margin: float, all: bool, progress: bool
    ) -> Report:
        """Returns the report on the parts in a folder of this machine."""

    def report(
        self,
        parts: Iterator[tuple[str, bytes]],
        into: str,
        failures: list[tuple[str, str]],
        margin: float,
        all: bool,
    ) -> Report:
        """Returns the report on parts, which may be in any order."""

@final
class SweepWorker:
    """Worker for the tasks of one recording, or of a plan without recordings. Several threads may share it."""

    def __new__(cls, plan: SweepPlan, recording: tuple[str, bytes] | None = None) -> SweepWorker: ...
    def __len__(self) -> int:
        """Returns the number of tasks."""

    def task(self, place: int) -> tuple[str, str]:
        """Returns the number of a task, and the path of its part in the dataset."""

    def check_part(self, place: int, bytes: bytes) -> Literal["whole", "damaged", "strange"]:
        """Checks the bytes of a task's part. `strange` is the part of another task."""

    def run(self, place: int) -> bytes:
        """Runs a task, and returns the bytes of its part."""
