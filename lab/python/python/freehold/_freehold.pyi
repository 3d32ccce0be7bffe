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
    all: bool = False,
    page: bool = False,
    progress: bool = True,
) -> Report:
    """Summarize the contents of a recording.

    Args:
        recording: Recording
        map: Print a map of memory at the start and at the end, pageblock by pageblock, instead of the
            tables
        block: Print only the frames of pageblock N of the map
        all: Print all tables: zones, memory by state and use, settings, orders, GFP classes, lifetimes,
            and more
        page: Include the data of the page: memory, pageblock by pageblock
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal
    """

def replay(
    recording: _StrPath,
    *,
    policy: str | None = None,
    cpus: int | None = None,
    reclaim: Literal["model", "recorded"] = "model",
    pace: Literal["work", "recorded"] = "work",
    setting: str | Iterable[str] = (),
    explain: bool = False,
    all: bool = False,
    page: bool = False,
    progress: bool = True,
) -> Report:
    """Replay a recording under one policy.

    Args:
        recording: Recording
        policy: Policy, as SET[,field=value...]; see `freehold policies` [default: the rules nearest to
            the recorded kernel]
        cpus: Spread the recorded tasks over N CPUs (1 to 512) instead of leaving each event on its
            recorded CPU
        reclaim: Source of reclaim and compaction in the replay
        pace: Times of the replayed events
        setting: Kernel setting instead of the recorded one, such as vm.min_free_kbytes=65536; may be
            repeated
        explain: List the first decisions that differ from the recorded kernel's
        all: Print all details: zero measures, every check against the recorded kernel, assumptions
        page: Include the data of the page: memory, pageblock by pageblock
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal

    Settings (docs/commands.md has their effects):
        vm.min_free_kbytes: a whole number from 0 to 2147483647
        vm.watermark_scale_factor: a whole number from 1 to 3000
        vm.percpu_pagelist_high_fraction: 0, or a whole number from 8 to 2147483647
        vm.watermark_boost_factor: a whole number from 0 to 2147483647
        vm.compaction_proactiveness: a whole number from 0 to 100
        vm.extfrag_threshold: a whole number from 0 to 1000
        vm.defrag_mode: a whole number from 0 to 1
        vm.lowmem_reserve_ratio: 1 to 5 whole numbers with spaces between, the lowest zone first
        transparent_hugepage.defrag: one of always, defer, defer+madvise, madvise, never
        transparent_hugepage.enabled: one of always, madvise, never

    A recording is replayed on the recorded machine's memory. `freehold sim recording FILE` runs its
    tasks on other memory: with --start SNAPSHOT on another machine's, with --age 60 on fragmented
    memory.
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
    """Replay recordings under policy A and policy B, and compare the results.

    Args:
        recordings: Recordings; snapshots among several files are passed over [default: the two bundled
            recordings of a real host]
        a: Policy A, as SET[,field=value...] [default: the rules nearest to the recorded kernel]
        b: Policy B; may be repeated [default: `freehold`; with setting_b: policy A]. Without a,
            `freehold` is replayed on the rules nearest to the recorded kernel
            (`freehold,on=linux-6.18`); any other policy is replayed as written
        setting_b: Kernel setting for B instead of the recorded one, such as vm.min_free_kbytes=65536;
            may be repeated
        cpus: Spread the recorded tasks over N CPUs (1 to 512) instead of leaving each event on its
            recorded CPU
        reclaim: Source of reclaim and compaction in the replay
        pace: Times of the replayed events
        margin: Margin in percent: relative changes up to the margin are "no change"
        exact: Replay each policy once: faster, but the sensitivity of differences to watermarks stays
            unknown
        all: Print all details: equal measures, fidelity, events that were not replayed exactly,
            assumptions
        page: Include the data of the page: memory, pageblock by pageblock
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal

    Settings (docs/commands.md has their effects):
        vm.min_free_kbytes: a whole number from 0 to 2147483647
        vm.watermark_scale_factor: a whole number from 1 to 3000
        vm.percpu_pagelist_high_fraction: 0, or a whole number from 8 to 2147483647
        vm.watermark_boost_factor: a whole number from 0 to 2147483647
        vm.compaction_proactiveness: a whole number from 0 to 100
        vm.extfrag_threshold: a whole number from 0 to 1000
        vm.defrag_mode: a whole number from 0 to 1
        vm.lowmem_reserve_ratio: 1 to 5 whole numbers with spaces between, the lowest zone first
        transparent_hugepage.defrag: one of always, defer, defer+madvise, madvise, never
        transparent_hugepage.enabled: one of always, madvise, never
    """

def advise(
    *recordings: _StrPath | Iterable[_StrPath],
    margin: float = 2,
    all: bool = False,
    progress: bool = True,
) -> Report:
    """Recommend settings to change on a recorded machine, with their predicted effects.

    Args:
        recordings: Recordings of one machine; several recordings give intervals. Snapshots among
            several files are passed over
        margin: Margin in percent: relative changes up to the margin are "no change"
        all: Try every value, not only likely improvements, and print each with all assumptions; takes
            several times as long
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal
    """

def record(
    *command: _StrPath | Iterable[_StrPath],
    out: _StrPath = "recording.parquet",
    force: bool = False,
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
    anonymize: bool = False,
    quiet: bool = False,
    ring: int | None = None,
    spool: _StrPath | None = None,
    progress: bool = True,
) -> Report:
    """Record this machine's page events while a command runs (Linux, as root).

    Args:
        command: Command to record; without COMMAND, the machine is recorded until Ctrl-C or duration
        out: Recording to write; a file of this name is replaced only with force. With flight: a folder,
            or a file name that contains {time} [default with flight: the current folder]
        force: Replace an existing file, once the new file is complete
        duration: Stop after S seconds; the command then gets SIGTERM if it still runs
        flight: Keep the events of the last TIME (60s, 5min) in memory, and write them to a new file
            when a trigger fires
        on: Triggers besides SIGUSR1: allocstall (direct reclaim), failure (failed allocation in the
            kernel's log), thp-failure (a fault that got no huge page), psi=10% (share of time in which
            tasks wait for memory), asked (only SIGUSR1)
        tail: Time to keep recording after a trigger, before the file is written
        every: Minimum time between two files; SIGUSR1 always writes a file
        keep: Number of files to keep; older files of this name are removed
        memory: Memory for events, of all CPUs together [default: a 64th of the machine's memory, at
            most 96 MiB]
        events: Also record these sets of events: reclaim, compaction, writeback, migration, sched
            (every task switch), or all
        stacks: Record the kernel's call stack for one of N allocated pages, to show call sites; N is a
            power of two
        all_names: Record the names of all tasks, not only of the command and its descendants
        anonymize: Replace names of tasks, the command, slab caches and kernel functions by numbers
            before the file is written
        quiet: Print no progress and no summary
        ring: Size of the kernel's ring buffer for each CPU [default: depends on the machine's memory, 1
            to 32 MiB]
        spool: Folder for raw events during the run, about 32 bytes an event [default: folder of the
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
        plan: Built-in plan (see list), or a TOML file
        recording: For the plan `recording`: the recording to play instead of the bundled build
        list: List the built-in plans
        cpus: Numbers of CPUs, 1 to 512 each [default: numbers in the plan]
        memory: Memory of the machine, for example 4GiB [default: memory in the plan]
        age: Fragmentation of the machine's memory at the start of a run: 0 is all free, 60 the median
            of servers, 100 the maximum (see `freehold age`)
        start: Snapshot, or recording, whose start state is the memory at the start of a run; the
            machine has the same size, unless memory is given
        a: Policy A, as SET[,field=value...]; see `freehold policies` [default: policy in the plan]
        b: Policy B; may be repeated [default: policies in the plan]
        seeds: Number of seeds [default: number in the plan]
        set: Change a key of the plan, for example workload.think_ns=100; may be repeated
        costs: Cost table: `reference`, or a file that `freehold calibrate` wrote
        lock_transfer_percent: Cost of moving a lock between CPUs, in percent of the cost in the table
        quick: Simulate a tenth of the time with one seed (or seeds), as a test; a web host runs at
            least twice the time in which its memory fills
        picture: Draw the measures as functions of the number of CPUs, as FILE.svg; for an interactive
            page, see --html
        all: Print all details: each measure with its verdict in every case
        vmstat: Print a kernel's counters in the format of /proc/vmstat, instead of tables; also adds
            them to JSON
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
    """Simulate many hosts with different parameters, and compare policies over all of them.

    Args:
        plan: Built-in plan (see `freehold sim --list`), or a TOML file
        hosts: Number of hosts
        memory: Memory of a host, for example 4GiB [default: memory in the plan]
        age: Fragmentation of each host's memory at the start: 0 is all free, 60 the median of servers,
            100 the maximum
        start: Snapshot, or recording, whose start state is the memory of each host at the start
        cpus: Number of CPUs of a host, 1 to 512 [default: number in the plan]
        a: Policy A, as SET[,field=value...]; see `freehold policies` [default: policy in the plan]
        b: Policy B; may be repeated [default: policies in the plan; for webhost: skip-costly and
            reuse-first]
        set: Change a key of the plan on all hosts, for example workload.think_ns=100; may be repeated
        seed: Seed of the fleet; another seed gives other hosts
        costs: Cost table: `reference`, or a file that `freehold calibrate` wrote
        quick: Simulate a tenth of the time, as a test; a web host runs at least twice the time in which
            its memory fills
        resume: Keep completed runs in FILE and continue from FILE; without resume, they are in a file
            that is removed at the end
        hosts_table: Also list every host
        all: Print all details: each measure with its verdict
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal

    Hosts differ by seed and by the random values of the keys in the plan's [fleet.draw]. A host has the
    same values under every policy. The same command continues an interrupted fleet: completed runs are
    kept in $XDG_STATE_HOME/freehold or ~/.local/state/freehold until the fleet is complete.
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
    force: bool = False,
    apply: bool = False,
    with_: str | Iterable[str] = (),
    for_: float | None = None,
    check: bool = False,
    sustain: bool | int | None = None,
    progress: bool = True,
) -> Report:
    """Generate fragmented memory, as workloads leave it, or fragment this machine's memory.

    Args:
        command: Command to run on the fragmented machine; its exit status is passed on
        age: Fragmentation of memory
        like: Generate memory like that of a snapshot, or of the start of a recording, with its figures
            for each kind of pageblock in each eighth of memory. If a share is given too, only the
            totals are used
        memory: Memory of the machine [default: 4GiB, or the memory of like]. With apply: free memory to
            fragment, as a size or in percent of the free memory [default: 80%]; more is used for a
            short time while holes are filled
        nodes: Number of nodes; each node has the same memory
        cpus: Number of CPUs (1 to 512), which determines the limits of the per-CPU lists
        seed: Seed; another seed generates other memory with the same figures
        fixed_blocks: Pageblocks with pages that can be neither moved nor reclaimed, in percent of all
            pageblocks
        fixed: Pages that can be neither moved nor reclaimed, in percent of memory
        free_blocks: Pageblocks without a page in use, in percent of all pageblocks
        free: Free pages, in percent of memory
        huge_blocks: Pageblocks that are a huge page of a task, in percent of all pageblocks
        out: Write the memory as a snapshot; a file of this name is replaced only with force
        force: Replace an existing file, once the new file is complete
        apply: Fragment this machine's memory while COMMAND runs, or until Ctrl-C (Linux, as root)
        with_: Kinds of unmovable pages, in equal parts. `pins` are placed page by page as generated.
            The kernel places the other kinds, and the report has the result. `movable` is a control:
            pages that compaction can move
        for_: Undo the fragmentation after S seconds; COMMAND then gets SIGTERM if it still runs
        check: After fragmenting, compact all memory of the machine, and check that at most a tenth of
            the lost pageblocks becomes free again. With neither for_ nor COMMAND, end after the check
        sustain: Keep fragmenting: release the pins of N pageblocks a second and pin other pageblocks,
            in a process with the lowest CPU priority [default: 8]
        progress: Show the progress: a bar if tqdm is installed, else a line in the terminal

    The age is the fragmentation of memory, not a time. At 0 all memory is free. At 60 a third of the
    pageblocks have unmovable pages, as published for production servers. From 80 on no pageblock is
    free. At 100 no large block can be allocated. The same age and seed give the same memory on every
    machine.

    With apply, the fragmentation is undone when the command ends, also after Ctrl-C and kill -9. Only
    the types of pageblocks remain: a pageblock that the kernel claimed for its own pages stays
    unmovable until a movable request claims it.
    """
