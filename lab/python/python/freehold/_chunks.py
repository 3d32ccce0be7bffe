"""How tasks are cut into chunks: long enough that handing one over costs nothing, short enough that all workers end
together.

How long a task takes grows with its recording, so a pace is kept in seconds a byte and task, from what chunks took. The
first chunks are single tasks; the last ones are short again.
"""

from collections import deque
from typing import Iterable, Optional

from ._chunk import Piece, Source

# Seconds that a chunk is to take, and at least.
LONG = 2.0
SHORT = 0.25

# Most pieces of a chunk.
PIECES = 256

# How much the newest chunk says of the pace.
NEWEST = 0.3

# The work of reading a small recording, and of a simulation, in bytes.
LEAST = 1 << 16


class Chunks:
    """What is still to be handed out."""

    def __init__(self, sources: "Iterable[Optional[Source]]", tasks: int) -> None:
        self._pieces = deque(Piece(source, 0, tasks) for source in sources)
        self._left = sum(weight(piece) for piece in self._pieces)
        # Tasks that killed a worker, or stood beside one that did.
        self._alone: "deque[Piece]" = deque()
        self._pace: Optional[float] = None

    def __bool__(self) -> bool:
        return bool(self._pieces or self._alone)

    @property
    def is_doubtful(self) -> bool:
        """Whether what comes next may kill its worker: it is to be alone on all of them, so that no other is blamed."""
        return not self._pieces

    def measured(self, pieces: "list[Piece]", seconds: float) -> None:
        """Learns from a chunk how long it took."""
        pace = seconds / sum(weight(piece) for piece in pieces)
        self._pace = pace if self._pace is None else self._pace + NEWEST * (pace - self._pace)

    def again(self, pieces: "list[Piece]") -> None:
        """Takes the tasks of a chunk back, to be handed out one by one."""
        for piece in pieces:
            self._alone.extend(Piece(piece.source, piece.first + place, 1) for place in range(piece.count))

    def next(self, threads: int) -> "list[Piece]":
        """The next chunk, for so many threads that work on all of them. Ask `is_doubtful` before."""
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
    """What a piece takes, in bytes of recordings."""
    size = LEAST if piece.source is None or piece.source.size is None else LEAST + piece.source.size
    return float(size * piece.count)
