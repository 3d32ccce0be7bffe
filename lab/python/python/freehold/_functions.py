"""The commands as functions of this package, with names under which `pickle` finds them in another process."""

import functools
from typing import Any, Callable, TypeVar

from . import _freehold

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _named(function: _Function) -> _Function:
    """Returns the function under the name of this package, where `pickle` and `help` look for it."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call.__module__ = __package__
    call.__qualname__ = function.__name__
    return call  # type: ignore[return-value]


advise = _named(_freehold.advise)
age = _named(_freehold.age)
compare = _named(_freehold.compare)
fleet = _named(_freehold.fleet)
inspect = _named(_freehold.inspect)
record = _named(_freehold.record)
replay = _named(_freehold.replay)
sim = _named(_freehold.sim)
