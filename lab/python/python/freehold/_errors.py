"""What can go wrong. The text of each is one sentence that says what to do, the one that the command would say."""


import errno


class Error(Exception):
    """A command could not be carried out; or it was, and came to something that is not to be."""


class CallError(Error, TypeError):
    """A keyword that there is not, or a value of another type than it takes."""


class InputError(Error, ValueError):
    """Something that cannot be worked with: a policy that there is not, a file that is no recording."""


class NotFoundError(Error, FileNotFoundError):
    """A file or a program that is not there."""

    errno = errno.ENOENT


class MissingPackageError(Error, ImportError):
    """A package that this needs and that is not installed."""


class NotPermittedError(Error, PermissionError):
    """Something that this process may not do: to record a machine is root's."""

    errno = errno.EPERM


class SystemFailure(Error, OSError):
    """The system failed, or lacks what is needed: a disk that is full, a kernel without tracing."""
