"""Freehold: record the page allocator of a Linux machine, inspect the recording, and compare policies on it.

Each function is a command of `freehold`, its keywords are the command's long options, and what it answers is a
`Report`. A `Recording` has the decoded rows of a file. `sweep` does many replays or simulations, here or on a cluster.
"""

from ._errors import (
    CallError,
    Error,
    InputError,
    MissingPackageError,
    NotFoundError,
    NotPermittedError,
    SystemFailure,
)
from ._freehold import Recording, Report, Rows, Table, __version__
from ._functions import advise, age, compare, fleet, inspect, record, replay, sim
from ._sweep import SweepWarning, sweep

__all__ = [
    "CallError",
    "Error",
    "InputError",
    "MissingPackageError",
    "NotFoundError",
    "NotPermittedError",
    "Recording",
    "Report",
    "Rows",
    "SweepWarning",
    "SystemFailure",
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
    "sweep",
]
