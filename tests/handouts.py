"""`make handouts`: each lesson as one file that runs by itself, in Colab or any Jupyter, without a network.

A folded cell, put before the set-up cell, holds the package and the data that this lesson's code names, packed
and with their checksum.  Stored outputs stay as they are.  Run as `python -m tests.handouts [folder]`.
"""

import base64
import hashlib
import io
import json
import re
import sys
import tarfile
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell

from tests.outputs import NOTEBOOKS

ROOT = NOTEBOOKS.parent
CELL = """#@title The course's package and this lesson's data: run me, no need to read me
import base64, hashlib, io, pathlib, sys, tarfile, tempfile

PACKED = "{packed}"
content = base64.b85decode(PACKED)
if hashlib.sha256(content).hexdigest() != "{checksum}":
    raise ValueError("This file was changed or cut off: what is packed in it is not what was. Fetch it again.")
folder = pathlib.Path(tempfile.mkdtemp(prefix="many-heads-"))
with tarfile.open(fileobj=io.BytesIO(content)) as archive:
    for member in archive:
        (folder / member.name).parent.mkdir(parents=True, exist_ok=True)
        (folder / member.name).write_bytes(archive.extractfile(member).read())
sys.path.insert(0, str(folder))
"""
UNREAD = {"08_how_many_heads.ipynb": {"english"}}  # it asks for that model, never for its stored maps


def needed(notebook, unread=()):
    """The files that a lesson needs: the package, and each folder of data whose name stands in its code."""
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    named = set(re.findall(r"\w+", code)) - set(unread)
    for path in sorted([*(ROOT / "mha").rglob("*"), *(ROOT / "data").rglob("*")]):
        name = path.relative_to(ROOT)
        ships = path.suffix == ".py" if name.parts[0] == "mha" else path.suffix in (".csv", ".safetensors")
        if ships and (name.parts[0] == "mha" or name.parts[1] in named):
            yield path


def packed(paths):
    """These files as one compressed archive, the same bytes each time."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:xz", preset=9) as archive:
        for path in paths:
            member = tarfile.TarInfo(path.relative_to(ROOT).as_posix())
            member.size = path.stat().st_size
            archive.addfile(member, io.BytesIO(path.read_bytes()))
    return file.getvalue()


def handout(path):
    """The lesson at `path` as a notebook that needs nothing but itself."""
    notebook = nbformat.read(path, as_version=4)
    content = packed(needed(notebook, UNREAD.get(path.name, ())))
    text = base64.b85encode(content).decode()  # no quotes and no backslash
    cell = new_code_cell(
        CELL.format(packed=text, checksum=hashlib.sha256(content).hexdigest()), id="everything-it-needs"
    )
    cell.metadata |= {"jupyter": {"source_hidden": True}, "cellView": "form", "tags": ["hide-input"]}
    cell.execution_count = 0
    first = next(number for number, other in enumerate(notebook.cells) if other.cell_type == "code")
    notebook.cells.insert(first, cell)
    return notebook


def main(folder=ROOT / "dist" / "handouts"):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        target = Path(folder) / path.name
        target.write_text(json.dumps(handout(path), ensure_ascii=False, indent=1) + "\n", "utf-8")
        print(f"{target.name}: {target.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
