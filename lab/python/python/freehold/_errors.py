"""Exceptions of this package. The message is one sentence with the cause and the fix, as the command prints it."""


import errno


class Error(Exception):
    """A command failed, or its result is an error, such as a regression."""


class CallError(Error, TypeError):
    """An unknown keyword, or a value of a wrong type."""


class InputError(Error, ValueError):
    """An invalid input, such as an unknown policy or a file that is not a recording."""


class NotFoundError(Error, FileNotFoundError):
    """A file or a program does not exist."""

    errno = errno.ENOENT


class MissingPackageError(Error, ImportError):
    """A required package is not installed."""


class NotPermittedError(Error, PermissionError):
    """The process lacks a permission. For example, recording a machine requires root."""

    errno = errno.EPERM


class SystemFailure(Error, OSError):
    """The system failed or lacks a resource, such as disk space or a kernel with tracing."""
