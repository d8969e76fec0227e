"""What all views share: controls above one SVG in an `ipywidgets.HTML`, drawn anew at each move of a control.

Sharp on a projector, values on hover, no script, no outside address, no figure left open.
"""

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

import ipywidgets
from ipywidgets import Checkbox, IntSlider, SelectionSlider, Text  # a dropdown loses its arrow keys to JupyterLab

from mha import palette
from mha.figures import Picture
from mha.views import svg

WIDTHS = {SelectionSlider: "380px", IntSlider: "300px", Text: "380px"}


class View:
    """Controls above one drawing; shown after its still, which is what a saved notebook keeps.

    A subclass says what there is to see, as functions of the controls' values alone (numbers, truths and texts), so
    that all of it can be drawn beforehand, without a kernel:

    _state(**values)    what is computed of them, once for each setting, and handed to the other three
    _picture(state)     (parts, width, height, words) for `svg.document`
    _table(state)       the numbers as text
    _still(state)       a `figures.Picture`, with its text alternative

    state, draw, table and still take values by name; a control that is not named counts as it stands.
    """

    _state: Callable[..., Any]
    _picture: Callable[[Any], svg.Drawing]
    _table: Callable[[Any], str]
    _still: Callable[[Any], Picture]

    def __init__(self, name: str, controls: dict[str, ipywidgets.Widget]) -> None:
        self.name, self.controls = name, controls
        self.html, self.paused = ipywidgets.HTML(), False
        self._states: dict[tuple, Any] = {}
        for control in controls.values():
            control.style.description_width = "initial"  # no label is cut
            control.layout.margin = "2px 18px 2px 2px"
            control.layout.width = WIDTHS.get(type(control), "auto")
            control.observe(self.redraw, names="value")
        row = ipywidgets.HBox(list(controls.values()), layout=ipywidgets.Layout(flex_flow="row wrap"))
        self.box = ipywidgets.VBox([row, self.html])
        self.redraw()

    def values(self) -> dict:
        """What the controls say: {name: value}."""
        return {name: control.value for name, control in self.controls.items()}

    def choices(self) -> dict[str, list[tuple[str, Any]]]:
        """What each control offers: {name: [(label, value), …]}; of a box for text only what it holds now."""
        return {name: _choices(control) for name, control in self.controls.items()}

    def state(self, **values: Any) -> Any:
        """What is computed of these values, once for each setting."""
        setting = tuple((self.values() | values).items())
        if setting not in self._states:
            if len(self._states) > 64:  # the last moves are enough to go back and forth
                self._states.clear()
            self._states[setting] = self._state(**dict(setting))
        return self._states[setting]

    def draw(self, **values: Any) -> str:
        """The drawing, as text."""
        return svg.document(*self._picture(self.state(**values)))

    def table(self, **values: Any) -> str:
        """The numbers, as text."""
        return self._table(self.state(**values))

    def still(self, **values: Any) -> Picture:
        """The still picture, with its text alternative."""
        return self._still(self.state(**values))

    def _fits(self, **_values: Any) -> bool:
        """Whether these values can go together."""
        return True

    def redraw(self, _change: object = None) -> None:
        """Show the present state.  What goes wrong is said in the view, until a state that works."""
        if self.paused:
            return
        try:
            self.html.value = self.draw()
        except Exception as error:
            words = escape(_failed("This view", error))
            look = f"border:3px solid {palette.ALERT};padding:8px;background:{palette.PAPER};color:{palette.INK}"
            self.html.value = f'<p role="alert" style="{look}">{words}</p>'

    def _ipython_display_(self) -> None:
        from IPython.display import display

        try:
            display(self.still())
        except Exception as error:  # the view itself may well work
            print(_failed("The still picture", error))
        # Said beside the view and not only in its place: JupyterLab shows an error there, once the kernel has gone.
        print(
            f"[{self.name}: run this cell for a view that you can move, if none is below; above is its still picture]"
        )
        model = {"version_major": 2, "version_minor": 0, "model_id": self.box.model_id}
        display({"application/vnd.jupyter.widget-view+json": model, "text/plain": f"[{self.name}]"}, raw=True)


def numbered(names: Iterable[str]) -> list[tuple[str, int]]:
    """Options for a slider, each with its number: tokens may repeat."""
    return [(f"{number} {name}", number) for number, name in enumerate(names)]


def _choices(control: ipywidgets.Widget) -> list[tuple[str, Any]]:
    if control.layout.display == "none" or isinstance(control, Text):  # nothing to choose, or anything
        return [(str(control.value), control.value)]
    if isinstance(control, SelectionSlider):
        return [option if isinstance(option, tuple) else (str(option), option) for option in control.options]
    if isinstance(control, Checkbox):
        return [("no", False), ("yes", True)]
    return [(str(number), number) for number in range(control.min, control.max + 1, control.step)]


def _failed(what: str, error: Exception) -> str:
    """One sentence on an error."""
    return f"{what} failed with {type(error).__name__}: {' '.join(str(error).split())}"
