"""Division of tasks into chunks. A chunk is long enough that the cost of sending it is negligible, and short enough
that all workers finish at about the same time.

The time of a task grows with the size of its recording. The pace is therefore measured in seconds per byte and task,
from the times of completed chunks. The first chunks are single tasks, and the last chunks are short again.

Design: chunks are limited by time and not by number of tasks. Tasks of milliseconds then cost no message each, and a
sweep does not end with one long chunk.
"""

from collections import deque
from typing import Iterable, Optional

from ._chunk import Piece, Source

# Longest planned time of a chunk, and shortest, in seconds.
LONG = 2.0
SHORT = 0.25

# Most pieces in a chunk.
PIECES = 256

# Weight of the newest chunk in the moving average of the pace.
NEWEST = 0.3

# Fixed work of a task, and all work of a simulation, in bytes of a recording.
LEAST = 1 << 16


class Chunks:
    """The tasks that are not sent to a worker yet."""

    def __init__(self, sources: "Iterable[Optional[Source]]", tasks: int) -> None:
        self._pieces = deque(Piece(source, 0, tasks) for source in sources)
        self._left = sum(weight(piece) for piece in self._pieces)
        # Single tasks of chunks that were lost with a worker; one of them may have killed it.
        self._alone: "deque[Piece]" = deque()
        self._pace: Optional[float] = None

    def __bool__(self) -> bool:
        return bool(self._pieces or self._alone)

    @property
    def is_doubtful(self) -> bool:
        """Whether the next task may kill its worker. It must run alone, so that no other task is blamed."""
        return not self._pieces

    def measured(self, pieces: "list[Piece]", seconds: float) -> None:
        """Updates the pace with the time of a completed chunk."""
        pace = seconds / sum(weight(piece) for piece in pieces)
        self._pace = pace if self._pace is None else self._pace + NEWEST * (pace - self._pace)

    def again(self, pieces: "list[Piece]") -> None:
        """Takes back the tasks of a lost chunk. They are sent again one by one."""
        for piece in pieces:
            self._alone.extend(Piece(piece.source, piece.first + place, 1) for place in range(piece.count))

    def next(self, threads: int) -> "list[Piece]":
        """Returns the next chunk. `threads` is the number of threads of the cluster. Check `is_doubtful` before."""
        if not self._pieces:
            return [self._alone.popleft()]
        chunk: "list[Piece]" = []
        room = self._room(threads)
        while self._pieces and len(chunk) < PIECES:
            piece = self._pieces[0]
            fits = int(room / weight(Piece(piece.source, 0, 1)))
            if fits < 1 and chunk:
                break
            taken = Piece(piece.source, piece.first, min(piece.count, max(fits, 1)))
            chunk.append(taken)
            room -= weight(taken)
            self._left -= weight(taken)
            self._pieces.popleft()
            if taken.count < piece.count:
                self._pieces.appendleft(Piece(piece.source, piece.first + taken.count, piece.count - taken.count))
        return chunk

    def _room(self, threads: int) -> float:
        if not self._pace:
            return 0.0
        share = self._left * self._pace / (2 * threads)
        return max(SHORT, min(LONG, share)) / self._pace


def weight(piece: Piece) -> float:
    """Returns the work of a piece, in bytes of recordings."""
    size = LEAST if piece.source is None or piece.source.size is None else LEAST + piece.source.size
    return float(size * piece.count)
