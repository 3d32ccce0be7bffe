"""The notebooks of the examples, run from top to bottom."""

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook_runs(path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    for needed in ("ipykernel", "polars", "duckdb"):
        pytest.importorskip(needed)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": path.parent}})
    client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in shown if output.output_type == "error"]
    pages = [output.data["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert any("<iframe" in page and "srcdoc" in page for page in pages), "the report is shown as its page"
