"""A lesson's notebook as a page: what each cell says, holds and printed, for `lesson.html.j2`."""

import base64
import functools
import io
import itertools
import json
import re
from html import escape, unescape
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader
from nbconvert.filters import Highlight2HTML, ansi2html, markdown2html_mistune
from PIL import Image

from mha import palette
from mha.exercises.judge import exercises
from tests.pages import with_mathml, with_pages
from tests.site import VIEW

HERE = Path(__file__).parent
HEADING = re.compile(r'<h([1-6]) id="([^"]*)">(.*?)</h\1>', re.S)
CHECK = re.compile(r'\bcheck\("(\d+\.\d+)"')
SAID = re.compile(r"\AIn words: .*?(\n(?=\[)|\Z)", re.S)  # what a notebook prints below a picture
templates = Environment(loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True)


def lesson(notebook, stem, folder):
    """The page of one lesson, as a dict for the template.  Its pictures are written into folder / "img" / stem."""
    cells = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cells.append({"id": cell.id, "words": words(cell.source)})
            continue
        page = Outputs(cell, stem, folder)
        found = CHECK.search(cell.source)
        cells.append(
            {
                "id": cell.id,
                "code": coloured(cell.source),
                "folded": "source_hidden" in cell.metadata.get("jupyter", {}),
                "blocks": list(page.blocks()),
                "exercise": found and exercise(found[1]),
            }
        )
    text = "".join(cell.get("words", "") for cell in cells)
    (title,) = (plain(inner) for level, _, inner in HEADING.findall(text) if level == "1")
    parts = [
        {"anchor": quote(unescape(anchor)), "title": plain(inner)}
        for level, anchor, inner in HEADING.findall(text)
        if level == "2"
    ]
    views = [block["view"] for cell in cells for block in cell.get("blocks", ()) if "view" in block]
    return {"stem": stem, "title": title, "parts": parts, "cells": cells, "views": views}


class Outputs:
    """What one cell printed, as blocks: each has a `kind`, and what the template shows of it."""

    def __init__(self, cell, stem, folder):
        self.cell, self.stem, self.folder, self.pictures = cell, stem, folder, 0

    def blocks(self):
        outputs, still = list(self.cell.outputs), None
        for output, following in itertools.pairwise([*outputs, {}]):
            data = output.get("data", {})
            if VIEW in data:
                yield {"kind": "view", "view": view(data[VIEW], f"{self.stem[:2]}-{self.cell.id}"), "still": still}
            elif "image/png" in data:
                still = self.picture(data["image/png"], output.metadata["image/png"])
                if VIEW not in following.get("data", {}):  # else it stands below the view
                    yield {"kind": "picture", **still}
            elif "text/html" in data:
                if not CHECK.search(self.cell.source):  # what nobody attempted needs no verdict
                    yield {"kind": "table", "html": data["text/html"]}
            else:
                text = output.get("text") or data.get("text/plain", "")
                text = SAID.sub("", text) if still else text  # the page has them below the picture
                if text.strip():
                    yield {"kind": "text", "html": ansi2html(text)}

    def picture(self, coded, metadata):
        """Write the picture's files; their names, size and words."""
        self.pictures += 1
        picture = {"alt": metadata["alt"]}
        for look, content in (("light", coded), ("dark", metadata.get("dark"))):
            if content:
                content = base64.b64decode(content)
                picture[look] = f"img/{self.stem}/{self.cell.id}-{self.pictures}-{look}.png"
                path = self.folder / picture[look]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                picture["width"], picture["height"] = Image.open(io.BytesIO(content)).size
        return picture


def view(data, name):
    """A view for the template: its controls, its first drawing with its numbers, and all others packed, as text."""
    place = 0
    for control in data["controls"]:
        place = place * len(control["options"]) + control["start"]
    runs = data["states"][data["at"][place]]
    drawing, end, numbers = "".join(data["parts"][part] for run in runs for part in data["runs"][run]).partition(
        "</svg>"
    )
    tables = {name: data[name] for name in ("parts", "runs", "states", "at")}
    tables["options"] = [control["options"] for control in data["controls"]]
    text = json.dumps(tables, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    said = unescape(re.search(r'aria-label="([^"]*)"', drawing)[1])
    return data | {"id": name, "drawing": drawing + end, "numbers": numbers, "said": said, "tables": text}


def words(source):
    """Markdown as HTML: formulas as MathML, links to lessons as links to their pages."""
    html = with_pages(markdown2html_mistune(with_mathml(source)))
    html = re.sub(r'<a class="anchor-link".*?</a>', "", html)
    html = html.replace("<th></th>", "<td></td>")  # a corner heads nothing
    html = html.replace("<th>", '<th scope="col">').replace("<table>", '<div class="wide"><table>')
    return html.replace("</table>", "</table></div>")


def passages(lesson):
    """What the search looks through: [page, anchor, lesson, heading, text] from each heading to the next."""
    page, found = f"{lesson['stem']}.html", []
    for cell in lesson["cells"]:
        html = cell.get("words") or f"{cell['code']}"
        start, *rest = HEADING.split(html)
        if found:
            found[-1][-1] += " " + plain(start)
        for _, anchor, heading, text in zip(*[iter(rest)] * 4, strict=True):
            found.append([page, quote(unescape(anchor)), lesson["title"], plain(heading), plain(text)])
    return found


def plain(html):
    """The text of a piece of HTML."""
    return " ".join(unescape(re.sub(r"<[^>]+>", "", html)).split())


def coloured(source):
    """Python in spans, for the stylesheet's colours."""
    return Highlight2HTML(pygments_lexer="ipython3")(source)


@functools.cache
def exercise(number):
    """The hints and the solution of an exercise."""
    one = exercises()[number]
    hints = [re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(hint, quote=False)) for hint in one.hints]
    return {"id": number, "hints": hints, "solution": coloured(one.source)}


def colours():
    """The palette as CSS: a custom property for each colour of words, lines and paper, in both looks."""
    roles = {
        role: [look[role] for look in (palette.LIGHT, palette.DARK)]
        for role in ("PAPER", "INK", "FAINT", "MUTED", "BAR", "CHOSEN")
    }
    roles |= {f"LINE{n}": [look["LINES"][n] for look in (palette.LIGHT, palette.DARK)] for n in range(4)}
    return " ".join(f"--{role.lower()}: light-dark({light}, {dark});" for role, (light, dark) in roles.items())


def ramps():
    """The values of red, green and blue along the two ramps in both looks, for the filters that colour grey pixels."""
    found = []
    for look, colours in (("light", palette.LIGHT), ("dark", palette.DARK)):
        for name in ("weights", "differences"):
            stops = [[int(stop[i : i + 2], 16) / 255 for i in (1, 3, 5)] for stop in colours[name.upper()]]
            channels = [" ".join(f"{value:.3f}" for value in channel) for channel in zip(*stops, strict=True)]
            found.append({"id": f"{name}-{look}", "channels": list(zip("RGB", channels, strict=True))})
    return found
