# Written by `cargo run -p freehold-python --example stubs`, from the definition of the command line. Do not edit.
"""The laboratory's commands as functions, what they answer, and recordings."""

import os
from pathlib import Path
from typing import Any, Iterable, Literal, Union, final

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
    `migratetype`; and `arg0` to `arg2`, which mean what the kind says (crates/trace/FORMAT.md).
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
        """What the recording says of the machine (crates/trace/FORMAT.md)."""

    def __len__(self) -> int:
        """Number of its rows: events, and the state at both ends."""

    def events(self) -> Rows:
        """What the kernel's allocator did, in order of time."""

    def start(self) -> Rows:
        """The state of memory when it started: free blocks, allocated ones, pageblocks."""

    def end(self) -> Rows:
        """The state of memory when it ended."""
