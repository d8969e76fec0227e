"""`make site`: run the lessons once, and write the course as pages.  Run as `python -m tests.site [folder]`.

A lesson is run again only when it, the package or the recorder has changed; what its run gave waits in dist/runs.
"""

import hashlib
import json
import re
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell

from tests import handouts
from tests.outputs import NOTEBOOKS, normal, run
from tests.site import VIEW
from tests.site import lesson as pages

ROOT, HERE = NOTEBOOKS.parent, Path(__file__).parent
RUNS = ROOT / "dist" / "runs"
START = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.site import record\nrecord.start()"
ROW = re.compile(r"^\| \[(.+?)\]\(notebooks/(\w+)\.ipynb\) \| (.+?) \|$", re.M)  # of README's table of lessons


def recorded(path):
    """The lesson after Run All, with its views' states and its pictures in both looks."""
    sources = [path, *sorted((ROOT / "mha").rglob("*.py")), HERE / "record.py"]
    mark = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    kept = RUNS / f"{path.stem}-{mark}.ipynb"
    if not kept.exists():
        notebook = nbformat.read(path, as_version=4)
        notebook.cells.insert(0, new_code_cell(START))
        run(notebook, seconds=900)
        del notebook.cells[0]
        for cell in notebook.cells:
            shown = any(VIEW in output.get("data", {}) for output in cell.get("outputs", []))
            if cell.cell_type == "code" and "explore." in cell.source and not shown:
                raise RuntimeError(f"the view of cell {cell.id} of {path.name} was not recorded: was there an error?")
        for old in RUNS.glob(f"{path.stem}-*"):
            old.unlink()
        RUNS.mkdir(parents=True, exist_ok=True)
        nbformat.write(normal(notebook), kept)
    return nbformat.read(kept, as_version=4)


def table():
    """What README says of each lesson: [(title, stem, what you can do afterwards), …]."""
    return ROW.findall((ROOT / "README.md").read_text("utf-8"))


def build(notebooks, folder, with_handouts=True):
    """Write the pages of these notebooks, {stem: notebook}, the front page and the search."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    common = {"colours": pages.colours(), "ramps": pages.ramps(), "with_handouts": with_handouts}
    made = [pages.lesson(notebook, stem, folder) for stem, notebook in notebooks.items()]
    for number, lesson in enumerate(made):
        before, after = (made[number - 1] if number else None), (made[number + 1] if number + 1 < len(made) else None)
        write(folder / f"{lesson['stem']}.html", "lesson", **lesson, before=before, after=after, **common)
    said = {stem: (title, pages.words(text)) for title, stem, text in table()}
    cards = [
        {
            "stem": lesson["stem"],
            "title": said[lesson["stem"]][0],
            "text": said[lesson["stem"]][1],
            "picture": next(block for cell in lesson["cells"] for block in cell.get("blocks", ()) if "light" in block),
        }
        for lesson in made
    ]
    views = [view for lesson in made for view in lesson["views"] if view["name"] == "mask"]
    write(folder / "index.html", "front", cards=cards, views=views[:1], title="Many Heads", **common)
    write(folder / "search.html", "search", title="Search", **common)
    passages = [passage for lesson in made for passage in pages.passages(lesson)]
    text = json.dumps(passages, ensure_ascii=False, separators=(",", ":"))
    (folder / "passages.js").write_text(f"const PASSAGES = {text}\n", "utf-8")
    for name in ("site.css", "site.js"):
        (folder / name).write_text((HERE / name).read_text("utf-8"), "utf-8")
    if with_handouts:
        handouts.main(folder / "handouts")


def write(path, template, **given):
    path.write_text(pages.templates.get_template(f"{template}.html.j2").render(**given) + "\n", "utf-8")


def main(folder=ROOT / "dist" / "site"):
    notebooks = {}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebooks[path.stem] = recorded(path)
        print(f"{path.stem}: run", flush=True)
    build(notebooks, folder)
    print(f"open {Path(folder) / 'index.html'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
