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

    def found(self, place: int, bytes: bytes) -> Literal["whole", "damaged", "strange"]:
        """Checks the bytes of a task's part. `strange` is the part of another task."""

    def run(self, place: int) -> bytes:
        """Runs a task, and returns the bytes of its part."""

__all__ = [
    "Recording",
    "Report",
    "Rows",
    "SweepPlan",
    "SweepWorker",
    "Table",
    "__version__",
    "advise",
    "age",
    "compare",
    "fleet",
    "inspect",
    "record",
    "replay",
    "sim",
]

def inspect(
    recording: _StrPath,
    *,
    map: bool = False,
    block: int | None = None,
    page: bool = False,
    progress: bool = True,
) -> Report:
    """Show what a recording contains.

    Args:
        recording: The recording
        map: Print memory instead, pageblock by pageblock, at the start and at the end
        block: Print the frames of this pageblock of the map
        page: Include the data of the page: memory, pageblock by pageblock
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal
    """

def replay(
    recording: _StrPath,
    *,
    policy: str = "linux-6.12",
    cpus: int | None = None,
    reclaim: Literal["model", "recorded"] = "model",
    pace: Literal["work", "recorded"] = "work",
    setting: str | Iterable[str] = (),
    explain: bool = False,
    page: bool = False,
    progress: bool = True,
) -> Report:
    """Replay a recording under one policy.

    Args:
        recording: The recording
        policy: The policy, as SET[,field=value...]; `freehold policies` lists them
        cpus: Spread the recorded tasks over N CPUs (1 to 512) instead of leaving each event on its
            recorded CPU
        reclaim: What becomes of what the recorded kernel did because memory was short
        pace: How time passes
        setting: Replay as if the kernel had been set so: vm.min_free_kbytes=65536,
            transparent_hugepage.defrag=always; may be repeated
        explain: List the first decisions that differ from the recorded kernel's
        page: Include the data of the page: memory, pageblock by pageblock
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal

    A recording is replayed on the memory that it was made on. To see what its tasks do on another
    machine's, or on an aged one: freehold sim recording FILE --start SNAPSHOT, or --age 60.
    """

def compare(
    *recordings: _StrPath | Iterable[_StrPath],
    a: str | None = None,
    b: str | Iterable[str] = (),
    setting_b: str | Iterable[str] = (),
    cpus: int | None = None,
    reclaim: Literal["model", "recorded"] = "model",
    pace: Literal["work", "recorded"] = "work",
    margin: float = 2,
    exact: bool = False,
    all: bool = False,
    page: bool = False,
    progress: bool = True,
) -> Report:
    """Replay recordings under policy A and policy B, and say what changed.

    Args:
        recordings: The recordings; without any, the two bundled ones of a real host
        a: Policy A, as SET[,field=value...]; without it, what the engine has of the recorded kernel's
            rules
        b: Policy B; may be given several times; `freehold`, or with setting_b policy A, if there is
            none. Without a, `freehold` is replayed on the recorded kernel's rules
            (`freehold,on=linux-6.18`); any other policy as written
        setting_b: Replay B as if the kernel had been set so: vm.min_free_kbytes=65536,
            transparent_hugepage.defrag=always; may be repeated
        cpus: Spread the recorded tasks over N CPUs (1 to 512) instead of leaving each event on its
            recorded CPU
        reclaim: What becomes of what the recorded kernel did because memory was short
        pace: How time passes
        margin: Relative changes up to this are no change, in percent
        exact: Replay each policy once: faster, but the sensitivity of a difference to watermarks is
            unknown
        all: Show everything: equal measures, fidelity, what was not replayed exactly, what is taken for
            granted
        page: Include the data of the page: memory, pageblock by pageblock
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal
    """

def advise(
    *recordings: _StrPath | Iterable[_StrPath],
    margin: float = 2,
    all: bool = False,
    progress: bool = True,
) -> Report:
    """Say which settings of a recorded machine to change, and what that would do.

    Args:
        recordings: Recordings of one machine; several give intervals
        margin: Relative changes up to this are no change, in percent
        all: Try every value, not only those that are likely to help, and show each with all
            assumptions: takes several times as long
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal
    """

def record(
    *command: _StrPath | Iterable[_StrPath],
    out: _StrPath = "recording.parquet",
    duration: float | None = None,
    flight: str | None = None,
    on: str | Iterable[str] = (),
    tail: str = "5s",
    every: str = "5min",
    keep: int = 20,
    memory: str | None = None,
    events: str | Iterable[str] = (),
    stacks: bool | int | None = None,
    all_names: bool = False,
    quiet: bool = False,
    ring: int | None = None,
    spool: _StrPath | None = None,
    progress: bool = True,
) -> Report:
    """Record this machine's page events while a command runs (Linux, as root).

    Args:
        command: The command to record; without one, the machine is recorded as it is
        out: The recording to write; an older one of this name is replaced once the new one is whole.
            With flight a folder, or a name with {time} in it, and the folder that you are in if you
            name none
        duration: Stop after so many seconds, even if the command still runs (it is then told to end, by
            SIGTERM)
        flight: Keep the last so much time (60s, 5min) in memory, and write it to a file of its own
            whenever something happens
        on: What makes it write, besides SIGUSR1: allocstall (direct reclaim), failure (of an
            allocation, as the kernel's log tells), thp-failure (a fault without its huge page), psi=10%
            (tasks wait for memory), asked (nothing else)
        tail: Go on for so long after what happened, before a file is written
        every: Write at most one file in so much time; SIGUSR1 is always answered
        keep: Keep the newest N files of this name and remove older ones
        memory: Memory for events, all CPUs together [default: a 64th of the machine's, at most 96 MiB]
        events: Record further events: reclaim, compaction, writeback, migration, sched (every switch of
            tasks), or all
        stacks: Take the kernel's stack of one page in N that are allocated, a power of two: who
            allocates
        all_names: Keep the names of all tasks, not only those of the command and its descendants
        quiet: Show nothing while recording
        ring: Size of the kernel's ring for each CPU [default: what suits the machine's memory, 1 to 32
            MiB]
        spool: Folder for raw events during the run, about 32 bytes each [default: that of the
            recording]
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal
    """

def sim(
    plan: _StrPath | None = None,
    recording: _StrPath | None = None,
    *,
    list: bool = False,
    cpus: int | Iterable[int] = (),
    memory: str | None = None,
    age: int | None = None,
    start: _StrPath | None = None,
    a: str | None = None,
    b: str | Iterable[str] = (),
    seeds: int | None = None,
    set: str | Iterable[str] = (),
    costs: _StrPath = "reference",
    lock_transfer_percent: int = 100,
    quick: bool = False,
    picture: _StrPath | None = None,
    all: bool = False,
    vmstat: bool = False,
    progress: bool = True,
) -> Report:
    """Simulate policies on one to hundreds of CPUs.

    Args:
        plan: A built-in plan (see list), or a TOML file
        recording: What the plan `recording` plays instead of the bundled build: a file that `freehold
            record` wrote
        list: List the built-in plans
        cpus: Numbers of CPUs (1 to 512) instead of the plan's
        memory: Memory of the machine instead of the plan's, as in 4GiB
        age: How old the machine's memory is when a run begins: 0 is all free, 60 the median of servers,
            100 hopeless (see `freehold age`)
        start: Begin with memory as this snapshot shows it, or a recording at its start; the machine is
            as large, unless memory says otherwise
        a: Policy A, as SET[,field=value...], instead of the plan's
        b: Policy B instead of the plan's; may be given several times
        seeds: Number of seeds instead of the plan's
        set: Change a key of the plan, as in workload.think_ns=100; may be given several times
        costs: What steps cost: `reference`, or a table that `freehold calibrate` wrote
        lock_transfer_percent: Cost of moving a lock between CPUs, in percent of the table's
        quick: A tenth of the time, and one seed unless seeds says more, to see that it runs; a web host
            has at least the time in which memory fills, and once more
        picture: Draw how things scale with CPUs, as FILE.svg; for a page to point into, see --html
        all: Show everything: each measure with its verdict in every case
        vmstat: Print what a kernel would count, in the format of /proc/vmstat, instead of tables; JSON
            has it then too
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal

    The same plan, seeds and cost table give the same numbers on every machine.
    """

def fleet(
    plan: _StrPath = "webhost",
    *,
    hosts: int = 60,
    memory: str | None = None,
    age: int | None = None,
    start: _StrPath | None = None,
    cpus: int | None = None,
    a: str | None = None,
    b: str | Iterable[str] = (),
    set: str | Iterable[str] = (),
    seed: int = 1,
    costs: _StrPath = "reference",
    quick: bool = False,
    resume: _StrPath | None = None,
    hosts_table: bool = False,
    all: bool = False,
    progress: bool = True,
) -> Report:
    """Simulate many hosts that differ, and say what policies change on all of them.

    Args:
        plan: A built-in plan (see `freehold sim --list`), or a TOML file
        hosts: Number of hosts
        memory: Memory of a host instead of the plan's, as in 4GiB
        age: How old each host's memory is when it begins: 0 is all free, 60 the median of servers, 100
            hopeless
        start: Each host begins with memory as this snapshot shows it, or a recording at its start
        cpus: Number of CPUs of a host (1 to 512) instead of the plan's
        a: Policy A instead of the plan's, as SET[,field=value...]; `freehold policies` lists them
        b: Policy B instead of the plan's (with webhost: skip-costly and reuse-first); may be given
            several times
        set: Change a key of the plan on all hosts, as in workload.think_ns=100; may be given several
            times
        seed: Seed of the fleet: another one gives other hosts
        costs: What steps cost: `reference`, or a table that `freehold calibrate` wrote
        quick: A tenth of the time, to see that it runs; a web host has at least the time in which
            memory fills, and once more
        resume: Keep what is done in FILE, and go on from what is there, instead of in a file that is
            removed at the end
        hosts_table: List every host as well
        all: Show everything: each measure with its verdict
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal

    Hosts differ by seed and by what each draws of the keys in the plan's [fleet.draw]; a host is the
    same under every policy. An interrupted fleet goes on where it was when it is started again: what is
    done is kept in $XDG_STATE_HOME/freehold or ~/.local/state/freehold until the fleet is whole.
    """

def age(
    *command: _StrPath | Iterable[_StrPath],
    age: int = 60,
    like: _StrPath | None = None,
    memory: str | None = None,
    nodes: int = 1,
    cpus: int = 32,
    seed: int = 1,
    fixed_blocks: float | None = None,
    fixed: float | None = None,
    free_blocks: float | None = None,
    free: float | None = None,
    huge_blocks: float | None = None,
    out: _StrPath | None = None,
    apply: bool = False,
    with_: str | Iterable[str] = (),
    for_: float | None = None,
    check: bool = False,
    sustain: bool | int | None = None,
    progress: bool = True,
) -> Report:
    """Draw a machine's memory as workloads leave it, from pristine to hopeless.

    Args:
        command: The command to run meanwhile; its exit status is passed on
        age: How old memory is
        like: Draw memory like that of this snapshot, or of a recording's start: with its figures of
            every kind of pageblock in each eighth of memory; if a share is ordered too, with its
            figures alone
        memory: Memory of the machine [default: 4GiB, or as much as that of like]; with apply the free
            memory to work on, also in percent of what is free [default: 80%]; for a moment it takes
            more if holes are to be filled first
        nodes: Number of nodes, between which memory is split evenly
        cpus: Number of CPUs (1 to 512), which decides how long per-CPU lists may get
        seed: Another seed draws other memory with the same figures
        fixed_blocks: Pageblocks with something that can be neither moved nor given up, in percent of
            all
        fixed: Pages that can be neither moved nor given up, in percent of memory
        free_blocks: Pageblocks that are free as a whole, in percent of all
        free: Free pages, in percent of memory
        huge_blocks: Pageblocks that are a huge page of a task, in percent of all
        out: Write it as a snapshot; an older one of this name is replaced once the new one is whole
        apply: Make the memory of this machine so: for as long as COMMAND runs, or until Ctrl-C (Linux,
            as root)
        with_: What holds the pages that cannot be moved, in equal parts. `pins` lie page by page as
            drawn; the kernel places the others, and the report says what it came to. `movable` is a
            control: pages that compaction does move
        for_: Undo it after so many seconds, even if COMMAND still runs (it is then told to end, by
            SIGTERM)
        check: Compact all memory of the machine first: at most a tenth of the lost pageblocks may come
            back. Without for_ and COMMAND, that is all
        sustain: Keep fragmenting meanwhile: the pins of so many pageblocks a second are let go, and
            others made elsewhere, by a process that waits for whoever wants the CPU [default: 8]
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal

    An age is where things lie, not how long a machine ran: 0 is all free; at 60 a third of the
    pageblocks hold something that cannot be moved, as published of production servers; from 80 on no
    pageblock is free; at 100 nothing large can be had. The same age and seed give the same memory on
    every machine.

    With apply everything is undone however it ends, Ctrl-C and kill -9 included, but for the type of
    pageblocks: those that the kernel opened for its own pages stay unmovable until something movable
    claims them.
    """
