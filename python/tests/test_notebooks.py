# SPDX-License-Identifier: BSD-3-Clause
"""The notebooks of examples/ run, and what they assert holds."""

import json
import os
import subprocess
import sys

import pytest

NOTEBOOKS = {
    "groceries": [],
    "fluorescence": ["matplotlib", "tensorly"],
    "communication": ["tensorly"],
    "counts": ["pandas", "pyttb"],
    "ratings": ["pandas", "sklearn"],
}


@pytest.fixture(name="examples")
def examples_(monkeypatch, tmp_path):
    examples = os.environ.get("TSTREAM_EXAMPLES")
    if examples is None:
        pytest.skip("TSTREAM_EXAMPLES does not name the examples")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return examples


def run(path, folder, monkeypatch):
    """What its cells print: by nbclient where it is there with a kernel, else cell after cell."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    try:
        import ipykernel  # noqa: F401
        import nbclient
        import nbformat
    except ImportError:
        cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
        script = "\n".join("".join(c["source"]) for c in cells)
        return subprocess.check_output([sys.executable, "-c", script], cwd=folder, text=True)
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
    client = nbclient.NotebookClient(
        nbformat.reads(text, as_version=4),
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    return "".join(o.get("text", "") for c in client.execute().cells for o in c.get("outputs", []))


def test_all_notebooks_are_here(examples):
    found = {name[:-6] for name in os.listdir(examples) if name.endswith(".ipynb")}
    assert found == set(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name, examples, tmp_path, monkeypatch):
    for package in NOTEBOOKS[name]:
        pytest.importorskip(package)
    out = run(os.path.join(examples, name + ".ipynb"), tmp_path, monkeypatch)
    assert out.strip()
    if name == "groceries":
        assert "exact fit" in out and "sausages" in out
        assert float(out.split("factor match score ")[1].split()[0]) > 0.5
