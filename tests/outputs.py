"""`make outputs`: run the notebooks and store what they print, in one normal form.  Twice changes nothing.

A cell marked NBVAL_IGNORE_OUTPUT shows times, which no two runs share: what it has stored stays, until
somebody clears it in the notebook.  Run as `python -m tests.outputs [notebook …]`; without notebooks it stores all of
them, and the README's picture.
"""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
ROOT = NOTEBOOKS.parent
FRONT = ROOT / ".github" / "reshape.png"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def ignored(cell):
    """Whether nbval leaves this cell's output alone."""
    return cell.cell_type == "code" and "NBVAL_IGNORE_OUTPUT" in cell.source


def normal(notebook):
    """The notebook, with only what belongs into the repository: no widget state, times or tool's marks."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), start=1):
        cell.execution_count = number
        cell.outputs = _joined(cell.outputs)
        for output in cell.outputs:
            # A widget lives in its kernel; stored without one it would only say "Loading widget".
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
            if "execution_count" in output:
                output.execution_count = number
    kept = ("tags", "cellView", "jupyter")  # the last two fold a cell, in Colab and in JupyterLab
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({key: cell.metadata[key] for key in kept if key in cell.metadata})
    return notebook


def _joined(outputs):
    """Streams that follow each other as one, each line as it was last written over: a bar leaves its end."""
    found = []
    for output in outputs:
        if found and output.output_type == found[-1].output_type == "stream" and output.name == found[-1].name:
            found[-1].text += output.text
        else:
            found.append(output)
    for output in found:
        if output.output_type == "stream":
            output.text = "\n".join(line.split("\r")[-1] for line in output.text.split("\n"))
    return found


def run(notebook, folder=NOTEBOOKS, seconds=120):
    """The notebook after Run All in this folder; stops at the first error, or at a cell that takes longer."""
    NotebookClient(
        notebook,
        timeout=seconds,
        iopub_timeout=60,  # a long output takes its time on a busy machine
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        store_widget_state=False,
        record_timing=False,
    ).execute()
    return notebook


def run_nbval(folder, *options, environment=None):
    """Strict nbval over a folder of notebooks, as in `make test`; `environment` instead of ours, if it is given."""
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    command += ["-p", "no:cacheprovider", f"--nbval-sanitize-with={ROOT / 'tests' / 'nbval.cfg'}", "-n=0", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} if environment is None else environment
    return subprocess.run([*command, str(folder)], cwd=folder, env=environment, capture_output=True, text=True)


def front_picture():
    """The README's picture: lesson 03's two reshapes with the same shape."""
    from mha import figures

    q = figures.addresses(T=6, d=8)
    steps = {
        "q (T, d)": q,
        "correct: view, transpose": q.view(6, 2, 4).transpose(0, 1),
        "wrong: view alone": q.view(2, 6, 4),
    }
    title = "Same shape, other numbers: the wrong head 0 is the first half of the text"
    return figures.shape_walk(steps, 4, title=title, alt="")


def main(paths):
    if not paths:
        FRONT.write_bytes(front_picture().png)
    for path in map(Path, paths or sorted(NOTEBOOKS.glob("*.ipynb"))):
        notebook = nbformat.read(path, as_version=4)
        kept = {cell.id: cell.outputs for cell in notebook.cells if ignored(cell)}
        for cell in run(notebook).cells:
            if kept.get(cell.id):
                cell.outputs = kept[cell.id]
        nbformat.write(normal(notebook), path)
        print(f"{path.name}: stored")


if __name__ == "__main__":
    main(sys.argv[1:])
