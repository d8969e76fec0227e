"""Two wishes in one row."""

import numpy as np
from ipywidgets import Checkbox, IntSlider

from mha.labels import SENTENCE
from mha.views.row import Row, RowView


class TwoPeaks(RowView):
    """One row that is asked for two tokens, and what two outputs can read from the mixture that comes back."""

    def __init__(self) -> None:
        controls = {
            "share": IntSlider(value=50, max=100, step=5, description="% on the token before"),
            "swapped": Checkbox(description="the two change places", indent=False),
        }
        super().__init__("two_peaks", controls)

    def _state(self, share: int, swapped: bool) -> Row:
        names = list(SENTENCE[:5])
        names[3:] = names[:2:-1] if swapped else names[3:]
        row = np.zeros(5)
        row[4], row[3] = share / 100, 1 - share / 100
        if share == 50:
            return Row(row, names, f"“{names[4]}” and “{names[3]}” are there, half and half: which was nearer is lost")
        read = names[int(row.argmax())]
        wrong = 2 if read == names[4] else 1
        return Row(row, names, f"There is most of “{read}”, so both outputs say “{read}”: output {wrong} is wrong")
