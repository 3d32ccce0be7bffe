"""Decoded recordings: every row of the file, with decoded names."""

import os
import pickle

import freehold
import pytest

GFP_KERNEL = 0xCC0


@pytest.fixture(scope="module")
def recording(calm):
    return freehold.Recording(calm)


def test_facts_match_the_file(recording, calm):
    parquet = pytest.importorskip("pyarrow.parquet")
    import json

    stored = json.loads(parquet.read_metadata(calm).metadata[b"freehold.facts"])
    assert recording.facts["kernel_release"] == stored["kernel_release"]
    assert recording.facts["tasks"] == stored["tasks"]
    assert len(recording) == parquet.read_metadata(calm).num_rows
    assert recording.path == calm


def test_rows_match_the_file(recording, calm):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    compute = pytest.importorskip("pyarrow.compute")
    stored = parquet.read_table(calm)
    stored = stored.filter(compute.less(stored["kind"].cast("int32"), 64))
    events = pyarrow.table(recording.events())
    assert events.num_rows == stored.num_rows
    for name in ("time", "order", "cpu", "arg0", "arg1", "arg2"):
        assert events[name].cast("int64").equals(stored[name].cast("int64")), name
    tasks = recording.facts["tasks"]
    assert events["task"].to_pylist() == [tasks[index]["name"] for index in stored["task"].to_pylist()]
    assert events["pid"].to_pylist() == [tasks[index]["pid"] for index in stored["task"].to_pylist()]
    assert events["pfn"].to_pylist() == [None if pfn == -1 else pfn for pfn in stored["pfn"].to_pylist()]
    kinds = {1: "Alloc", 2: "Free", 3: "ZoneLocked", 4: "PcpuDrain"}
    pairs = set(zip(stored["kind"].to_pylist(), events["kind"].to_pylist()))
    assert {(code, name) for code, name in pairs if code in kinds} == {(code, name) for code, name in kinds.items() if code in dict(pairs)}
    masks = dict(zip(stored["gfp"].to_pylist(), events["gfp"].to_pylist()))
    assert masks[0] is None and masks.get(GFP_KERNEL, "GFP_KERNEL") == "GFP_KERNEL"
    assert len(set(masks.values())) == len(masks)


def test_names_are_dictionary_encoded(recording):
    pyarrow = pytest.importorskip("pyarrow")
    schema = pyarrow.schema(recording.events())
    for name in ("task", "kind", "gfp", "migratetype"):
        assert pyarrow.types.is_dictionary(schema.field(name).type)


def test_rows_are_streamed_in_batches(calm, pressure):
    pyarrow = pytest.importorskip("pyarrow")
    recording = freehold.Recording(pressure)
    reader = pyarrow.RecordBatchReader.from_stream(recording.events())
    sizes = [batch.num_rows for batch in reader]
    assert len(sizes) > 10 and max(sizes) < 80_000
    before = pyarrow.total_allocated_bytes()
    for batch in pyarrow.RecordBatchReader.from_stream(recording.events()):
        assert pyarrow.total_allocated_bytes() - before < 1 << 24
        break


def test_sections_sum_to_the_recording(recording):
    pyarrow = pytest.importorskip("pyarrow")
    parts = [recording.start(), recording.events(), recording.end()]
    assert sum(pyarrow.table(part).num_rows for part in parts) == len(recording)


def test_polars_duckdb_and_pandas_count_alike(recording):
    pyarrow = pytest.importorskip("pyarrow")
    compute = pytest.importorskip("pyarrow.compute")
    events = recording.events()
    table = pyarrow.table(events)
    expected = table.filter(compute.equal(table["kind"].cast("string"), "Alloc")).num_rows
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(events)
    assert frame.filter(polars.col("kind").cast(polars.String) == "Alloc").height == expected
    pandas = pytest.importorskip("pandas")
    frame = getattr(pandas.DataFrame, "from_arrow", lambda events: pyarrow.table(events).to_pandas())(events)
    assert (frame["kind"] == "Alloc").sum() == expected
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql("SELECT count(*) FROM events WHERE kind = 'Alloc'").fetchall() == [(expected,)]


def test_recording_is_picklable_by_its_path(calm, tmp_path, monkeypatch):
    monkeypatch.chdir(calm.parent)
    recording = freehold.Recording(calm.name)
    monkeypatch.chdir(tmp_path)
    there = pickle.loads(pickle.dumps(recording))
    assert os.path.samefile(recording, calm) and there.facts == recording.facts
    assert freehold.inspect(recording).dict == freehold.inspect(there).dict
