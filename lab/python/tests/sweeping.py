"""Shared helpers of the sweep tests: plans, distinct recordings, and the contents of folders."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

PLAN = """title = 'Two policies'
kind = 'replay'
a = 'linux-6.12'
b = ['freehold']
exact = true
[axes]
cpus = ['recorded', 4]
"""

# Number of tasks of that plan on a recording of Linux 6.12.
TASKS = 4


SIMULATED = """title = 'Simulated'
kind = 'sim'
plan = 'pingpong'
set = ['duration_ms=1']
b = ['freehold']
[axes]
cpus = [2]
seed = 3
"""


def differing(bytes_of: bytes, number: int) -> bytes:
    """Returns the same recording with other bytes: unused bytes are inserted before the footer."""
    footer = len(bytes_of) - 8 - int.from_bytes(bytes_of[-8:-4], "little")
    return bytes_of[:footer] + f"{number:08}".encode() + bytes_of[footer:]


def study(folder: Path, recordings: int, plan: str = PLAN) -> "tuple[Path, Path]":
    """Creates a plan, and a folder with this number of recordings."""
    path = folder / "plan.toml"
    path.write_text(plan)
    made = folder / "recordings"
    made.mkdir()
    of = [(ROOT / f"recordings/guest-{name}.parquet").read_bytes() for name in ("build", "files")]
    for number in range(recordings):
        (made / f"r{number:04}.parquet").write_bytes(differing(of[number % 2], number))
    return path, made


def tree(folder: Path) -> "dict[str, bytes]":
    """Returns all files below a folder with their bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def parts(folder: Path) -> "list[Path]":
    """Returns the parts in a folder, which may be written to at the same time."""
    found = []
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith("_")]
        found += [Path(at) / name for name in files if name == "part.parquet"]
    return found
