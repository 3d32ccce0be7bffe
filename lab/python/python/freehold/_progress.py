"""Progress of a call: bars of tqdm if it is installed, else a line of the terminal."""

import sys
import time
import warnings
from typing import Any, Optional

# A part of the work: its number, description, completed steps, total steps, and the unit of the steps, if any.
Stage = tuple[int, str, int, int, Optional[str]]

# Seconds before progress is shown, so that short calls show none.
PATIENCE = 0.5


class Progress:
    """Display of the progress of a call, which appears after `PATIENCE` seconds and disappears at the end."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._shown: Any = None

    def show(self, stages: list[Stage]) -> None:
        if self._shown is None:
            if not stages or time.monotonic() - self._begun < PATIENCE:
                return
            self._shown = _Bars.if_installed() or _Line()
        self._shown.show(stages)

    def close(self) -> None:
        if self._shown is not None:
            self._shown.close()


class _Bars:
    """One tqdm bar for each part of the work, in a notebook or a terminal."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._bars: dict[int, Any] = {}

    @staticmethod
    def if_installed() -> "Optional[_Bars]":
        with warnings.catch_warnings():
            # Without widgets, a notebook gets plain bars. The warning of tqdm about this is suppressed.
            warnings.simplefilter("ignore")
            try:
                from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
            except ImportError:
                return None
        return _Bars(tqdm)

    def show(self, stages: list[Stage]) -> None:
        under_way = {stage[0] for stage in stages}
        for number in [number for number in self._bars if number not in under_way]:
            self._bars.pop(number).close()
        for number, what, done, total, unit in stages:
            if number not in self._bars:
                shape = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{remaining} left]" if unit else "{l_bar}{bar}| [{remaining} left]"
                self._bars[number] = self._tqdm(
                    total=total, desc=what, unit=f" {unit or ''}", unit_scale=True, leave=False, bar_format=shape
                )
            bar = self._bars[number]
            bar.update(done - bar.n)

    def close(self) -> None:
        self.show([])


class _Line:
    """A moving line on stderr, if stderr is a terminal."""

    def __init__(self) -> None:
        self._is_seen = sys.stderr is not None and sys.stderr.isatty()

    def show(self, stages: list[Stage]) -> None:
        if self._is_seen:
            parts = [f"{what}: {100 * done // max(total, 1)} %" for _, what, done, total, _ in stages]
            sys.stderr.write("\r\x1b[K" + "; ".join(parts)[:120])
            sys.stderr.flush()

    def close(self) -> None:
        if self._is_seen:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
