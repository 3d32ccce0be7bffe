"""Freehold: record what a Linux machine's page allocator did, look at it, and compare policies on it.

Each function is a command of `freehold`, its keywords are the command's long options, and what it answers is a
`Report`. A `Recording` has the decoded rows of a file.
"""

from ._errors import (
    CallError,
    Error,
    InputError,
    NotFoundError,
    NotPermittedError,
    SystemFailure,
)
from ._freehold import Recording, Report, Rows, Table, __version__
from ._functions import advise, age, compare, fleet, inspect, record, replay, sim

__all__ = [
    "CallError",
    "Error",
    "InputError",
    "NotFoundError",
    "NotPermittedError",
    "Recording",
    "Report",
    "Rows",
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
]
