"""What a lesson's first cell starts while the site is made: pictures come in both looks, views with all their states.

A state of a view is a drawing, cut into its elements, and its table of numbers, cut into lines.  Equal elements are
stored once, and so are equal runs of them (`packed`).  Where a colour depends on the look, the element says both, as
`light-dark(…, …)`; pictures made of pixels are stored in grey, and the page's filters `weights` and `differences`
colour them.
"""

import base64
import functools
import gzip
import inspect
import io
import itertools
import json
import math
import re

import numpy as np
from IPython.display import display
from ipywidgets import Button, Checkbox, IntSlider, Text
from PIL import Image
from traitlets import TraitError

from mha import figures, runtime
from mha.figures import architecture
from mha.views import svg
from mha.views.view import View
from tests.site import VIEW

BYTES = 250_000  # of one view, compressed
MOST, FEWER = 2600, {"heads": 1600, "switchboard": 512}  # settings of one view, and of those that are slow to draw
FIRST = {  # controls that matter more than the order in which they stand says
    "heads": ("layer", "head", "query", "show", "other", "lines", "hide"),
    "conversation_cache": ("model", "kv_heads", "tokens"),
    "parameter_budget": ("d_model", "heads", "vocabulary", "tokens", "bias"),
}
COLOUR = re.compile(r"(#[0-9a-f]{6}\b|#[0-9a-f]{3}\b)")
ELEMENT = re.compile(r"(?<=>)(?=<(?:rect|line|image|/svg)\b)|(?<=</text>)(?=<text\b)")  # a box keeps its words
LEVELS = {  # of each ramp: which of its 256 colours this one is
    name: {tuple(colour): level for level, colour in enumerate(svg.ramp(signed).tolist())}
    for name, signed in (("weights", False), ("differences", True))
}
PIXELS = re.compile(r'"data:image/png;base64,([^"]+)"')


def looks(draw):
    """What `draw()` gives in the light look and in the dark one."""
    found = []
    for dark in (False, True):
        runtime.look.dark = dark
        try:
            found.append(draw())
        finally:
            runtime.look.dark = False
    return found


def in_both_looks(function):
    """This function of `figures`, whose pictures then have `dark`, their bytes in the dark look."""

    @functools.wraps(function)
    def drawn(*given, **named):
        if runtime.look.dark:
            return function(*given, **named)
        picture, dark = looks(lambda: function(*given, **named))
        picture.dark = dark.png if dark.alt == picture.alt else picture.png  # an iterator is empty the second time
        return picture

    return drawn


def show_picture(picture):
    """As `Picture` does, with the dark look beside the words; these are on the page anyway."""
    coded = {look: base64.b64encode(png).decode() for look, png in (("light", picture.png), ("dark", picture.dark))}
    metadata = {"image/png": {"alt": picture.alt, "dark": coded["dark"]}}
    display({"image/png": coded["light"], "text/plain": picture.alt}, metadata=metadata, raw=True)


def show_view(view):
    """The still, and all states."""
    display(view.still())
    display({VIEW: recorded(view), "text/plain": f"[{view.name}]"}, raw=True)


def recorded(view):
    """A view as data: its controls, and its states, packed."""
    moving, drawn = chosen(view), {}
    while True:
        for tables in (True, False):  # a view that moves comes before its numbers
            data = with_these(view, moving, drawn, tables)
            if len(gzip.compress(json.dumps(data).encode())) <= BYTES or not (moving or tables):
                return data
        moving = moving[:-1]


def with_these(view, moving, drawn, tables=True):
    """The view as data, when these controls move, with or without tables of numbers.  drawn keeps what has been drawn.

    `at` holds a state's number for each setting of them, the last fastest; −1 where values do not go together.
    """
    offered, start, at = view.choices(), view.values(), []
    moving = [name for name in offered if name in moving]
    for setting in settings(view, moving):
        key = setting and tuple(setting.items())
        if key is not None and key not in drawn:
            drawn[key] = drawing(view, setting)
        at.append(key and sum(drawn[key][: 1 + tables], ()))
    numbers = {state: number for number, state in enumerate(dict.fromkeys(state for state in at if state))}
    still = [
        control for name, control in view.controls.items() if name not in moving and offers(control, offered[name])
    ]
    return {
        "name": view.name,
        "controls": [described(view.controls[name], offered[name], start[name]) for name in moving],
        "stay": [control.description for control in still if not isinstance(control, Text)],
        "typed": [control.description for control in still if isinstance(control, Text)],
        "buttons": list(buttons(view.box)),
        "at": [numbers.get(state, -1) for state in at],
        **packed(list(numbers)),
    }


def buttons(box):
    """What is written on the buttons in a box of controls.  They change controls, so a page does without them."""
    for child in getattr(box, "children", ()):
        if isinstance(child, Button):
            yield child.description
        yield from buttons(child)


def chosen(view):
    """The names of the controls that move on the page, the first ones first: as many as may be drawn."""
    offered, most = view.choices(), FEWER.get(view.name, MOST)
    moving, before = [], 1
    for name in dict.fromkeys([*FIRST.get(view.name, ()), *offered]):
        wanted = [*moving, name]
        if math.prod(len(offered[other]) for other in wanted) > 2 * most:
            continue
        count = len({tuple(setting.items()) for setting in settings(view, wanted) if setting})
        if before < count <= most:  # it does something, and not too much
            moving, before = wanted, count
    return moving


def settings(view, moving=None):
    """All values of the controls for each choice of those that move (all, unless given); None where they do not fit.

    The controls are really moved, so what one of them does to others is in it.  A grey control counts as it began.
    """
    start, offered = view.values(), view.choices()
    moving = offered if moving is None else moving
    for values in itertools.product(*([value for _, value in offered[name]] for name in moving)):
        wanted = dict(zip(moving, values, strict=True))
        try:
            move(view, start)
            move(view, {name: wanted[name] for name in start if name in wanted})
        except TraitError:  # one does not offer this, as the others stand
            yield None
            continue
        now = view.values()
        fits = all(now[name] == value for name, value in wanted.items()) and view._fits(**now)
        grey = {name: start[name] for name, control in view.controls.items() if control.disabled}
        yield now | grey if fits else None
    move(view, start)


def move(view, values):
    for name, value in values.items():
        view.paused = True  # nothing is drawn meanwhile
        if view.controls[name].value != value:
            view.controls[name].value = value
    view.paused = False


def drawing(view, setting):
    """The elements of one drawing, each for both looks, and the lines of its table."""
    state = view.state(**setting)
    light, dark = (ELEMENT.split(text) for text in looks(lambda: svg.document(*view._picture(state))))
    lines = view._table(state).splitlines(keepends=True)
    return tuple(both(*pair) for pair in zip(light, dark, strict=True)), tuple(lines)


def both(light, dark):
    """One element for both looks: its colours in pairs, its pixels in grey."""
    if PIXELS.search(light):
        return in_grey(light)
    pieces = zip(COLOUR.split(light), COLOUR.split(dark), strict=True)
    return "".join(one if one == other else f"light-dark({one},{other})" for one, other in pieces)


def in_grey(element):
    """An image whose pixels are the levels of its colour ramp, and the filter that gives the colours back."""
    pixels = np.array(Image.open(io.BytesIO(base64.b64decode(PIXELS.search(element)[1]))).convert("RGB"))
    colours = set(map(tuple, pixels.reshape(-1, 3).tolist()))
    name = next(name for name, levels in LEVELS.items() if colours <= set(levels))
    grey = [[LEVELS[name][tuple(colour)] for colour in row] for row in pixels.tolist()]
    file = io.BytesIO()
    Image.fromarray(np.array(grey, np.uint8)).save(file, "png", optimize=True)
    coded = f'"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}" class="{name}"'
    return PIXELS.sub(lambda _: coded, element)


def packed(states):
    """States (tuples of texts) as tables: `parts`, `runs` of their numbers, and `states` of the numbers of runs."""
    parts = sorted({part for state in states for part in state})  # like beside like: short when compressed
    number, runs, rows = {part: place for place, part in enumerate(parts)}, {}, []
    for state in states:
        row, run = [], []
        for place, part in enumerate(state, start=1):
            run.append(number[part])
            if run[-1] % 8 == 0 or place == len(state):  # where a run ends depends on what is there, not on its place
                row.append(runs.setdefault(tuple(run), len(runs)))
                run = []
        rows.append(row)
    return {"parts": parts, "runs": list(runs), "states": rows}


def described(control, offered, value):
    """A control as data: its label, its kind on a page, what it offers and where it stands."""
    labels, values = zip(*offered, strict=True)
    ordered = isinstance(control, IntSlider) or all(label[:1].isdigit() for label in labels)
    kind = "box" if isinstance(control, Checkbox) else "slider" if ordered else "list"
    return {"label": control.description, "kind": kind, "options": labels, "start": values.index(value)}


def offers(control, offered):
    """Whether there is something to choose: a box for text offers anything."""
    return isinstance(control, Text) or (control.layout.display != "none" and len(offered) > 1)


def start():
    """From now on pictures come in both looks, and views with all their states."""
    for module in (figures, architecture):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__annotations__.get("return") in (figures.Picture, "Picture"):
                setattr(module, name, in_both_looks(function))
    figures.Picture._ipython_display_ = show_picture
    View._ipython_display_ = show_view
