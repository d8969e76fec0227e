"""Lessons as HTML pages that stand alone: `python -m nbconvert --to tests.pages.Page notebooks/*.ipynb`.

The template of nbconvert's own `--to html` drops the text alternative that each picture has stored beside it, and
puts "No description has been provided" in its place.  This one keeps it.
"""

from jinja2 import DictLoader
from nbconvert import HTMLExporter

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
