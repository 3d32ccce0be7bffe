"""The result of a call: a report, and tables that every reader of Arrow accepts."""

import html.parser
import json

import freehold
import pytest


@pytest.fixture(scope="module")
def report(calm):
    return freehold.compare(calm, b="linux-6.12,pcp=merge", progress=False)


def test_report_has_json_text_repr_and_html(report, calm):
    assert json.loads(report.json()) == report.dict and report.json().endswith("}\n")
    assert str(report) == report.text and "\x1b" not in report.text
    assert repr(report).startswith("<freehold.Report compare: ") and "\n" not in repr(report)
    assert report.verdict and all(isinstance(sentence, str) for sentence in report.verdict)
    assert report.html().startswith("<!DOCTYPE html>")


def test_measures_are_one_table(report):
    pyarrow = pytest.importorskip("pyarrow")
    measures = pyarrow.table(report.measures)
    assert len(report.measures) == measures.num_rows > 10
    assert {"group", "measure", "unit", "of", "a", "b", "change", "low", "high", "verdict"} <= set(measures.column_names)
    of_report = report.dict["report"]["groups"] if "report" in report.dict else None
    if of_report is not None:
        lines = sum(len(measure["lines"]) for group in of_report for measure in group["measures"])
        assert measures.num_rows >= lines
    words = set(measures["verdict"].to_pylist()) - {None}
    assert words <= LABELS


LABELS = {
    "better",
    "worse",
    "changed",
    "no change",
    "sensitive to watermarks",
    "within noise",
    "mixed",
    "too few events",
    "not judged",
}


def tables_of(report):
    return [report.measures, *report.tables]


def test_polars_reads_tables(calm):
    polars = pytest.importorskip("polars")
    for table in tables_of(freehold.inspect(calm)):
        frame = polars.DataFrame(table)
        assert frame.height == len(table)


def test_pyarrow_reads_tables(calm):
    pyarrow = pytest.importorskip("pyarrow")
    for table in tables_of(freehold.inspect(calm)):
        assert pyarrow.table(table).num_rows == len(table)
        assert pyarrow.schema(table) == pyarrow.table(table).schema


def test_pandas_reads_tables(calm):
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    for table in tables_of(freehold.inspect(calm)):
        frame = getattr(pandas.DataFrame, "from_arrow", lambda table: pyarrow.table(table).to_pandas())(table)
        assert len(frame) == len(table)


def test_duckdb_reads_tables(calm):
    duckdb = pytest.importorskip("duckdb")
    for rows in tables_of(freehold.inspect(calm)):
        assert duckdb.sql("SELECT count(*) FROM rows").fetchall() == [(len(rows),)]


def test_table_is_exported_without_a_copy(report):
    pyarrow = pytest.importorskip("pyarrow")

    def addresses(table):
        columns = pyarrow.table(table).columns
        return [buffer.address for column in columns for buffer in column.chunk(0).buffers() if buffer is not None]

    measures = report.measures
    assert addresses(measures) == addresses(measures)


def test_numeric_columns_have_numeric_types(calm):
    pyarrow = pytest.importorskip("pyarrow")
    types = {field.type for table in freehold.inspect(calm).tables for field in pyarrow.table(table).schema}
    assert {pyarrow.int64(), pyarrow.float64(), pyarrow.string()} <= types


class Frame(html.parser.HTMLParser):
    """Parser that collects the elements of a notebook cell with their attributes."""

    def __init__(self):
        super().__init__()
        self.elements = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))


def test_notebook_cell_is_a_sandboxed_page(report):
    frame = Frame()
    frame.feed(report._repr_html_())
    [(tag, attributes)] = frame.elements
    assert tag == "iframe" and attributes["sandbox"] == "allow-scripts"
    assert attributes["srcdoc"] == report.html()
    assert "Content-Security-Policy" in attributes["srcdoc"]


def test_hostile_names_are_escaped_in_html(calm, tmp_path):
    hostile = tmp_path / "\"><script>alert(1)<\\script>&quot;\x1b[2J.parquet"
    hostile.write_bytes(calm.read_bytes())
    report = freehold.compare(hostile, exact=True, progress=False)
    frame = Frame()
    frame.feed(report._repr_html_())
    assert [tag for tag, _ in frame.elements] == ["iframe"]
    assert "<script>alert" not in report.html() and "\x1b" not in report.text
    pyarrow = pytest.importorskip("pyarrow")
    of = {name for name in pyarrow.table(report.measures)["of"].to_pylist() if name}
    assert any("<script>alert(1)" in name and "\x1b[2J" in name for name in of), "a table is no terminal"
