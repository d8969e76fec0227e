"""`make slides`: each lesson as one deck of slides, in dist/slides: one HTML file that needs no network.

A slide has a few sentences, or code with the text it prints, or one figure as large as the page.  Of a long paragraph
it shows the first sentence and those that explain a term; what is left out stands in the speaker's notes (key S),
with what `notebooks/teaching.md` says about the cell.  An answer comes after the picture that shows it.
nbconvert draws the slides with reveal.js.  Run as `python -m tests.slides [--larger] [notebook …]`: `--larger` runs the
lessons first, with the larger type that `mha.runtime.setup(projector=True)` gives to their figures.
"""

import ast
import base64
import io
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import numpy as np
from jinja2 import DictLoader
from nbconvert import SlidesExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from PIL import Image

from mha.exercises.judge import exercises
from tests.outputs import NOTEBOOKS, normal, run
from tests.pages import with_mathml, with_pages

ROOT = NOTEBOOKS.parent
REVEAL = ROOT / ".venv" / "node_modules" / "reveal.js"
TEACHING = NOTEBOOKS / "teaching.md"
TEMPLATE = Path(__file__).with_name("slides.html.j2")
NOT_SHOWN = ("Your exercises", "Words of this course", "Read on")  # sections for a reader, not for a room
WIDTH, HEIGHT = 1184, 640  # of a page of 1280 by 720, what its margins leave
LETTER, LINE = 14.5, 38  # pixels of a letter of text, on average, and of a line
MARK = re.compile(r"(?:- |\d+\. )")
STEP = re.compile(
    r"^- \*\*(\d+ min)\*\* \[[^]]*\]\(([\w.]+)#cell-id=([\w-]+)\)[.:]?\s*(.*(?:\n(?:[ \t]+\S.*)?)*)", re.M
)


# --- text


def sentences(text):
    """The sentences of a paragraph; none ends inside emphasis, code, a formula or brackets."""
    found, start = [], 0
    for end in re.finditer(r"(?<=[.?!])[*”\"’)\]]*\s+(?=[*“\"(\[`$]*[A-Z`√])", text):
        piece = text[start : end.end()]
        closed = all(piece.count(mark) % 2 == 0 for mark in "*`$") and piece.count("(") <= piece.count(")")
        if closed and not re.search(r"\b(et al|vs|[A-Z])\.\s+$", piece):
            found.append(piece.strip())
            start = end.end()
    return [*found, text[start:].strip()] if text[start:].strip() else found


def lead(paragraph, words=40):
    """(What a slide shows of a paragraph, what is left for its notes)."""
    text = " ".join(paragraph.split())
    if len(text.split()) <= words or is_question(text):
        return text, ""
    found = sentences(text)
    shown = {0} | {number for number, one in enumerate(found) if "**" in one}
    if text.endswith(":"):
        shown.add(len(found) - 1)
    for number in sorted(shown):  # a sentence that points back stands with the one before it
        if number and re.match(
            r"(And|Both|But|Its?|One|So|Such|That|Their|They|There|Th[ei]se|This|Those)\b", found[number]
        ):
            shown.add(max((n for n in range(number) if found[n][0] != "("), default=0))
    while sum(len(found[number].split()) for number in shown) < 12 and len(shown) < len(found):
        shown.add(min(set(range(len(found))) - shown))
    pick = [
        " ".join(one for number, one in enumerate(found) if (number in shown) == wanted) for wanted in (True, False)
    ]
    return pick[0], pick[1]


def is_question(text):
    return bool(re.search(r"\*\*[^*]*then run", text)) or bool(re.match(r"\*\*\d\. ", text))


def blocks(source):
    """(kind, text) of each piece of a markdown cell: heading, table, item, answer, question or text."""
    for piece in re.findall(r"<details>.*?</details>|(?:(?!\n\s*\n)(?!<details>).)+", source.strip(), re.S):
        piece = piece.strip()
        if piece.startswith("<details>"):
            yield "answer", piece
        elif piece.startswith("#"):
            yield "heading", piece
        elif piece.startswith("|"):
            yield "table", piece
        elif MARK.match(piece):
            yield from (("item", item.strip()) for item in re.split(r"\n(?=- |\d+\. )", piece))
        else:
            yield ("question" if is_question(piece) else "text"), piece


def high(kind, text, scale=1.0):
    """About how many pixels a piece of text needs, in type so many times as large as the least."""
    if kind == "table":
        rows = [row.strip("|").split("|") for row in text.split("\n") if "---" not in row]
        letters = 88 / scale / len(rows[0])  # in a line of a cell, if all were as wide
        return sum(scale * (16 + 30 * max(1, *(-(-len(cell) // letters) for cell in row))) for row in rows) + 16
    plain = re.sub(r"<[^>]+>|[*`]|\]\([^)]*\)", "", text)
    letters = int(WIDTH / LETTER / scale)
    return LINE * scale * sum(max(1, -(-len(line) // letters)) for line in plain.split("\n")) + 16


# --- code


def for_a_room(source):
    """Code without what only the notebook needs: a call that draws a figure keeps its first argument."""
    lines = source.removeprefix("# NBVAL_IGNORE_OUTPUT\n").split("\n")
    source = "\n".join(lines)
    for node in reversed(ast.parse(source).body):
        call = node.value if isinstance(node, ast.Expr) else None
        drawn = isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[0] in ("figures", "architecture")
        if drawn and node.end_lineno - node.lineno > 1:
            first = [ast.unparse(one) for one in call.args[:1] if one.end_lineno - one.lineno < 2]
            short = ", ".join([*first, "…"]) if len("".join(first)) < 60 else "…"
            lines[node.lineno - 1 : node.end_lineno] = [f"{ast.unparse(call.func)}({short})"]
    above = [re.sub(r"^(\s*)(\S.*?)  (# .*)$", r"\1\3\n\1\2", line) if len(line) > 94 else line for line in lines]
    return re.sub(r"\n\n\n+", "\n\n", "\n".join(above)).strip("\n")


def code_size(text, scale=1.0):
    """Pixels of type for preformatted text: as many as its longest line leaves."""
    return max(18, min(20 * scale, 1150 / 0.603 / max(map(len, text.split("\n")))))


def code_high(text, scale=1.0):
    """Pixels that preformatted text needs."""
    size = code_size(text, scale)
    letters = int(1150 / 0.603 / size)
    return 30 + 1.3 * size * sum(max(1, -(-len(line) // letters)) for line in text.split("\n"))


def pages(text, room):
    """Preformatted text in pieces that fit; code is cut where a statement begins, if it can be."""
    while code_high(text) > room:
        lines = text.split("\n")
        most = next(n for n in range(len(lines), 0, -1) if n == 1 or code_high("\n".join(lines[:n])) <= room)
        places = range(most, most // 2, -1)
        outside = [n for n in places if lines[n] and lines[n][0] not in " )]}"]
        cut = (outside or [n for n in places if re.match(r" {4,8}\w", lines[n])] or [most])[0]
        yield "\n".join(lines[:cut]).rstrip("\n")
        text = "\n".join(lines[cut:]).lstrip("\n")
    yield text


# --- figures


def cut(output):
    """(a figure, its height as a share of its width), or several: one too tall is cut below a row of its tables."""
    whole = Image.open(io.BytesIO(base64.b64decode(output.data["image/png"]))).convert("RGB")
    wide, high = whole.size
    seen = np.asarray(whole)[:, : int(0.85 * wide)]  # left of the bar of colours
    ink = (seen != seen[0, 0]).any(axis=-1).mean(axis=1)
    ends = [y for y in range(1, high) if ink[y] == 0 < ink[y - 1] and ink[y - 2 : y].max() > 0.5]
    if high < 0.75 * wide or len(ends) < 2:
        return [(output, high / wide)]
    pieces = []
    for top, end in zip([0, *ends[:-1]], [*ends[:-1], high], strict=True):
        png = io.BytesIO()
        whole.crop((0, top, wide, end)).save(png, "PNG")
        alt = f"Part {len(pieces) + 1} of {len(ends)}. {output.metadata['image/png']['alt']}"
        data = {"image/png": base64.b64encode(png.getvalue()).decode()}
        pieces.append((new_output("display_data", data, metadata={"image/png": {"alt": alt}}), (end - top) / wide))
    return pieces


# --- slides


@dataclass
class Slide:
    """What stands on a slide, and what is said to it.  kind: as nbconvert calls it; cell: the lesson's, by its id."""

    kind: str
    cell: str
    parts: list = field(default_factory=list)  # (role, what: text, code or an output; the pixels needed, by scale)
    notes: list = field(default_factory=list)

    def needs(self, scale=1.0):
        return sum(high(scale) for _, _, high in self.parts)

    def left(self):
        return HEIGHT - self.needs()

    def has(self, *roles):
        return any(role in roles for role, *_ in self.parts)

    def cells(self):
        """For nbconvert, in type as large as there is room for."""
        scale = next((scale for scale in (1.4, 1.25, 1.1) if self.needs(scale) < HEIGHT - 40), 1.0)
        made = []
        for role, what, _ in self.parts:
            name, _, fragment = role.partition(" ")
            cell = new_code_cell("") if name in ("code", "output", "figure") else new_markdown_cell(with_mathml(what))
            size = 28 * scale
            if name == "code":
                cell.source, size = what, code_size(what, scale)
            elif name in ("output", "figure"):
                cell.outputs = [what]
                size = code_size(what.text, scale) if "text" in what else size
            cell.metadata.update({"role": name, "size": f"{size:.1f}"})
            cell.metadata["slideshow"] = {"slide_type": "fragment"} if fragment else {}
            made.append(cell)
        made[0].metadata["slideshow"] = {"slide_type": self.kind, "data": {"cell": self.cell}}
        if any(self.notes):
            notes = new_markdown_cell(with_mathml("\n\n".join(filter(None, self.notes))))
            notes.metadata["slideshow"] = {"slide_type": "notes"}
            made.insert(1, notes)
        return made


class Deck:
    """The slides of a lesson, filled from its first cell to its last."""

    def __init__(self, notebook, teaching=None, hints=None):
        self.teaching, self.hints = teaching or {}, hints or {}
        self.slides, self.cell, self.waiting, self.hidden = [], "", [], False
        self.title = self.section = self.where = self.asked = ""
        for number, cell in enumerate(notebook.cells):
            self.cell, first = cell.id, len(self.slides)
            kind = cell.metadata.get("slideshow", {}).get("slide_type", "-")
            if kind == "notes":
                self.note(cell.source)
            elif cell.cell_type == "markdown" and kind != "skip":
                after = notebook.cells[number + 1 : number + 2]
                self.read(cell, number == 0, runs=bool(after) and after[0].cell_type == "code")
            elif kind != "skip" and not self.is_set_up(cell):
                self.show(cell)
            new = [slide for slide in self.slides[first:] if slide.cell == cell.id]
            (new or self.slides[-1:])[0].notes[:0] = self.teaching.get(cell.id, [])

    @staticmethod
    def is_set_up(cell):
        folded = cell.metadata.get("jupyter", {}).get("source_hidden")
        return folded or "mha.runtime.setup(" in cell.source or cell.source.strip() == "progress()"

    def cells(self):
        return [cell for slide in self.slides for cell in slide.cells()]

    @property
    def slide(self):
        return self.slides[-1]

    def begin(self, kind="subslide"):
        self.slides.append(Slide(kind, self.cell))
        if self.where:
            where = re.sub(r"^(\d+)\.", r"\1\\.", self.where)  # no list
            self.slide.parts.append(("where", where, lambda scale: 52))

    def put(self, role, what, needed):
        """One more part on this slide, or on the next if it does not fit.  needed(scale) are its pixels."""
        if needed(1.0) > self.slide.left() and not all(part[0] == "where" for part in self.slide.parts):
            self.begin()
            role = role.split()[0]  # on a page of its own nothing need wait
        self.slide.parts.append((role, what, needed))

    def write(self, role, text):
        self.put(role, text, lambda scale: high(role, text, scale))

    def note(self, text):
        self.slide.notes.append(text)

    def read(self, cell, opening, runs):
        """A cell of text.  `runs`: code follows, so that the answer to its last question can wait."""
        found = list(blocks(cell.source))
        exercise = False
        if opening:
            found = self.open(*found)
        elif self.slide.has("figure") or self.slide.left() < 320 or (self.slide.has("answer") and runs):
            self.begin()
        for number, (kind, text) in enumerate(found):
            if kind == "heading":
                level, _, title = text.partition(" ")
                exercise, self.hidden = "Exercise" in title, title in NOT_SHOWN
                if not self.hidden:
                    self.head(level, title)
            elif self.hidden or text.startswith(("**Read on", "Replace the `...`")):
                self.note(text)
            elif kind == "answer" and runs and number == len(found) - 1:
                self.waiting.append((self.asked, text))
            elif kind == "answer":
                self.answer(text)
            else:
                if kind == "question" and self.slide.left() < 400:
                    self.begin()
                self.asked = text
                shown, rest = (text, "") if exercise or kind != "text" else lead(text)
                self.write(kind, shown)
                self.note(rest)

    def open(self, title, promise, *rest):
        """The first cell: title and promise, the parts, and the rest as notes."""
        self.begin("slide")
        self.put("opening", f"{title[1]}\n\n{promise[1]}", lambda scale: HEIGHT)
        self.title = self.section = self.where = title[1].removeprefix("# ")
        for kind, text in rest:
            if kind == "table":
                self.begin()
                self.write(kind, text)
            else:
                self.note(text)
        return []

    def head(self, level, title):
        """A heading begins a slide; one of the second level a column of slides."""
        if self.slide.has("where") and len(self.slide.parts) == 1:
            self.slides.pop()  # it has nothing else yet
        self.where = ""
        self.begin("slide" if level == "##" else "subslide")
        self.section = title if level == "##" else self.section
        self.put("title", f"{level} {title}", lambda scale: 84)
        if "Exercise" not in title:
            self.where = title
        else:  # what comes after it belongs to the section
            self.where = self.section
            for number in re.findall(r"\d+\.\d+", title):
                for step, hint in enumerate(self.hints.get(number, ()), start=1):
                    self.note(f"Hint {step} of {number}: {hint}")

    def answer(self, details, question=""):
        """An answer: shown at the next key, or, after its cell has run, on a slide with its question."""
        summary, text = re.fullmatch(r"<details><summary>(.*?)</summary>(.*)</details>", details, re.S).groups()
        options = re.split(r"(?=\([a-d]\) )", summary)[1:]
        for option in options:
            self.write("item", f"- {option}")
        if options:
            text = re.sub(r"\s(?=\**\([b-d]\) |\**\([b-d]\)\**)", "\n\n", text.strip())
        if question:
            self.begin()
            self.write("asked", question)
        for paragraph in re.split(r"\n\s*\n", text.strip()):
            self.write("answer" if question else "answer later", paragraph)

    def show(self, cell):
        """A cell of code, what it printed, and its figures.  What a question asks for is not seen with it."""
        source = for_a_room(cell.source)
        room = HEIGHT - 52
        if self.slide.has("figure", "answer", "output"):
            self.begin()
        if not self.slide.has("code") or code_high(source) > self.slide.left():
            for piece in pages(source, room):
                self.put("code", piece, lambda scale, piece=piece: code_high(piece, scale))
        else:
            self.put("code", source, lambda scale: code_high(source, scale))
        later = " later" if self.slide.has("question") else ""
        for output in cell.outputs:
            data = output.get("data", {})
            if output.output_type == "stream":
                self.printed(output, later)
            elif "image/png" in data:
                self.figure(output)
            elif "text/html" in data and 'role="status"' not in data["text/html"]:
                rows = data["text/html"].count("<tr>")
                self.put("output" + later, output, lambda scale, rows=rows: 46 * scale * rows + 16)
        if cell.outputs:
            waiting, self.waiting = self.waiting, []
            for question, details in waiting:
                self.answer(details, question)

    def printed(self, output, later):
        """Printed text; what a figure says in words goes to the notes."""
        text, _, words = output.text.partition("In words: ")
        words, *moves = re.split(r"\n\[\w+: run this cell", words)
        if words:
            self.note("In words: " + " ".join(words.split()))
        if moves:
            self.put("moves", "In the notebook this picture moves.", lambda scale: 0)
        for piece in pages(text.strip("\n"), HEIGHT - 52) if text.strip() else ():
            one = nbformat.from_dict(output | {"text": piece})
            self.put("output" + later, one, lambda scale, piece=piece: code_high(piece, scale))

    def figure(self, output):
        """As large as the page, or beside little code if that makes it no smaller."""
        for piece, share in cut(output):
            if self.slide.has("question", "figure") or self.slide.left() < min(WIDTH * share, 500):
                self.begin()
            left = self.slide.left()
            self.put("figure", piece, lambda scale, left=left: left if scale == 1 else HEIGHT)


# --- files


def read_teaching(text, lesson):
    """{cell id: what a teacher says there} of a lesson, from the routes in `teaching.md`."""
    found, route = {}, ""
    for part in re.split(r"^(?=#+ )", text, flags=re.M):
        heading, _, body = part.partition("\n")
        route = heading.removeprefix("### ") if heading.startswith("### ") else ""
        for minutes, file, cell, said in STEP.findall(body):
            if file == lesson:
                label = f"**{route}, {minutes}.**" if route else f"**{minutes}.**"
                found.setdefault(cell, []).append(f"{label} {' '.join(said.split())}")
    return found


class Slides(SlidesExporter):
    """nbconvert's slides on our page, with reveal.js in it."""

    def __init__(self, **more):
        super().__init__(extra_loaders=[DictLoader({"page.html.j2": TEMPLATE.read_text("utf-8")})], **more)
        self.template_file, self.exclude_anchor_links = "page.html.j2", True
        self.register_filter("inlined", inlined)
        self.register_filter("sibling", with_pages)


def inlined(name):
    """A file of reveal.js as text for a page; `</script` in a script would end it."""
    if not REVEAL.is_dir():
        raise FileNotFoundError(f"reveal.js is not in {REVEAL}: `make slides` fetches it, with npm and a network, once")
    return (REVEAL / name).read_text("utf-8").replace("</script", r"<\/script")


def deck(notebook, name, teaching=""):
    """The lesson as one HTML page.  name: its file's; teaching: the text of `teaching.md`."""
    hints = {number: exercise.hints for number, exercise in exercises().items()}
    slides = Deck(notebook, read_teaching(teaching, name), hints)
    made = nbformat.v4.new_notebook(cells=slides.cells(), metadata={"title": slides.title})
    return Slides().from_notebook_node(made)[0]


def larger(notebook):
    """The lesson, run here with the type for a projector."""
    for cell in notebook.cells:
        cell.source = cell.source.replace("mha.runtime.setup()", "mha.runtime.setup(projector=True)")
    return normal(run(notebook))


def main(*arguments, folder=ROOT / "dist" / "slides"):
    from tests.slides_check import complaints

    paths = [Path(name) for name in arguments if not name.startswith("-")] or sorted(NOTEBOOKS.glob("*.ipynb"))
    folder.mkdir(parents=True, exist_ok=True)
    teaching = TEACHING.read_text("utf-8") if TEACHING.exists() else ""
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        made = deck(larger(notebook) if "--larger" in arguments else notebook, path.name, teaching)
        target = folder / f"{path.stem}.html"
        target.write_text(made, "utf-8")
        print(f"{target.name}: {target.stat().st_size / 1e6:.2f} MB")
    return complaints([folder / f"{path.stem}.html" for path in paths])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
