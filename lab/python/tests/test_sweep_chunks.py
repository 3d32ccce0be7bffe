"""Division of tasks into chunks, and the recordings that a worker keeps in memory."""

import threading

import freehold
import pytest
from freehold import _chunk, _chunks
from freehold._chunk import Piece, Source
from freehold._chunks import Chunks


def tasks_of(pieces):
    return [(piece.source, piece.first + at) for piece in pieces for at in range(piece.count)]


def taken(chunks, seconds):
    """Takes all chunks, with this number of seconds for each task."""
    all_of = []
    while chunks:
        all_of.append(chunks.next(threads=2))
        chunks.measured(all_of[-1], seconds * len(tasks_of(all_of[-1])))
    return all_of


@pytest.mark.parametrize("seconds", [1e-6, 0.003, 0.5, 60])
@pytest.mark.parametrize("sources, tasks", [(1, 1), (1, 1000), (300, 6)])
def test_every_task_is_assigned_once(sources, tasks, seconds):
    recordings = [Source("store", f"r{number}", 1 << 20) for number in range(sources)]
    all_of = taken(Chunks(recordings, tasks), seconds)
    handed = [task for chunk in all_of for task in tasks_of(chunk)]
    assert sorted((source.path, place) for source, place in handed) == sorted(
        (source.path, place) for source in recordings for place in range(tasks)
    )
    assert max(len(tasks_of(chunk)) for chunk in all_of) * seconds <= max(_chunks.LONG * 1.01, seconds)
    assert max(len(chunk) for chunk in all_of) <= _chunks.PIECES


def test_chunks_are_long_in_the_middle_and_short_at_the_end():
    sizes = [len(tasks_of(chunk)) for chunk in taken(Chunks([None], 10_000), 0.01)]
    assert sizes[0] == 1 and max(sizes) == round(_chunks.LONG / 0.01) and sizes[-1] <= _chunks.SHORT / 0.01 + 1


def test_returned_tasks_are_assigned_singly():
    chunks = Chunks([None], 2)
    chunks.measured([Piece(None, 0, 1)], 0.001)
    [piece] = chunks.next(threads=1)
    chunks.again([piece])
    singly = []
    while chunks:
        singly.append(chunks.next(threads=1))
    assert [tasks_of(chunk) for chunk in singly] == [[task] for task in tasks_of([piece])]


def test_only_recordings_in_use_are_held():
    held, read = _chunk._Held(), []

    def borrowed(key):
        return held.borrowed(key, lambda: read.append(key) or key)

    with borrowed("a") as one, borrowed("a") as again, borrowed("b"):
        assert one == again == "a" and set(held._slots) == {"a", "b"}
    with borrowed("b"):
        pass
    assert read == ["a", "b"], "what was read last is there still"
    with borrowed("c"):
        assert set(held._slots) == {"c"}


def test_failed_read_leaves_no_held_recording():
    held = _chunk._Held()

    def failing():
        raise freehold.InputError("no recording")

    with pytest.raises(freehold.InputError), held.borrowed("a", failing):
        pass
    with held.borrowed("a", lambda: "read") as worker:
        assert worker == "read"


def test_threads_share_a_recording_read():
    held, read, both = _chunk._Held(), [], threading.Barrier(2)

    def work():
        with held.borrowed("a", lambda: read.append(None) or "a"):
            both.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read) == 1
