"""Still pictures, each with its text alternative.  Rows are queries, columns are keys, in every one.

Every function but `table` returns a `Picture`, which a notebook shows as an image and, below it, its text in words.
A title says what to see; `alt` says it to somebody who cannot.  No pyplot: no figure stays open.
How all of them look is settled in `look.py`; a drawing of a whole Transformer is in `architecture.py`.
"""

from mha.addresses import make as addresses
from mha.figures.boxes import shape_walk
from mha.figures.charts import bars, curves
from mha.figures.heatmaps import differences, head_grid, heatmap
from mha.figures.layer import attention_layer, one_score
from mha.figures.look import Picture, own_settings
from mha.figures.models import head_counts
from mha.figures.tables import table
from mha.labels import printable, short

__all__ = [
    "Picture",
    "addresses",
    "attention_layer",
    "bars",
    "curves",
    "differences",
    "head_counts",
    "head_grid",
    "heatmap",
    "one_score",
    "own_settings",
    "printable",
    "shape_walk",
    "short",
    "table",
]
