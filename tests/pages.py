"""Lessons as HTML pages that stand alone: `python -m nbconvert --to tests.pages.Page notebooks/*.ipynb`.

The template of nbconvert's own `--to html` drops the text alternative that each picture has stored beside it, and
puts "No description has been provided" in its place.  This one keeps it.
"""

import re

import latex2mathml.converter
from jinja2 import DictLoader
from nbconvert import HTMLExporter

FORMULA = re.compile(r"(```.*?```|`[^`]*`)|\$\$(.+?)\$\$|\$([^$\n]+?)\$", re.S)
TEMPLATE = """{% extends "lab/index.html.j2" %}
{% block data_png %}
<div class="jp-RenderedImage jp-OutputArea-output" data-mime-type="image/png">
<img src="data:image/png;base64,{{ output.data["image/png"] }}"
     alt="{{ output | get_metadata("alt", "image/png") | escape_html }}">
</div>
{% endblock data_png %}
"""


class Page(HTMLExporter):
    """An HTML page whose pictures carry their text alternatives."""

    def __init__(self, **more):
        super().__init__(extra_loaders=[DictLoader({"alternatives.html.j2": TEMPLATE})], **more)
        self.template_file = "alternatives.html.j2"


def with_mathml(markdown):
    """Markdown whose formulas, $…$ and $$…$$, are MathML, which browsers draw without a script; code stays as it is."""
    return FORMULA.sub(_mathml, markdown)


def _mathml(match):
    code, block, inline = match.groups()
    if code:
        return code
    html = latex2mathml.converter.convert((block or inline).strip(), display="block" if block else "inline")
    return html.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")


def with_pages(html):
    """HTML whose links to other lessons lead to their pages, which lie beside this one."""
    return re.sub(r'href="(\d\d_\w+)\.ipynb', r'href="\1.html', html)
