"""Views that move: one SVG in an `ipywidgets.HTML`, drawn anew at each move of a control.

Sharp on a projector, values on hover, no script, no outside address, no figure left open.  Each view has
`still()`, the picture for the saved notebook, and `table()`, its numbers as text.
"""

import textwrap

import ipywidgets
import numpy as np
import torch
from ipywidgets import Checkbox, IntSlider, SelectionSlider, Text  # a dropdown loses its arrow keys to JupyterLab

from mha import figures, svg
from mha.accounting import stack_parameters, table_bytes
from mha.attention import allowed_heads, scaled_dot_product_attention
from mha.checks import check_counts, layer_weights, whole
from mha.heads import SPECIAL
from mha.tasks import dates

SENTENCE = ("Maya", "fed", "her", "cat", ",", "twice")


class View:
    """Controls above one drawing; shown after its still, which is what a saved notebook keeps.

    `picture`, `table` and `still` are functions of the controls' values: picture(**values) returns (parts,
    width, height, words) for `svg.document`, table(**values) a text, still(**values) a `figures.Picture`.
    """

    def __init__(self, name, controls, picture, table, still):
        self.name, self.controls = name, controls
        self._picture, self._table, self._still = picture, table, still
        self.html, self.paused = ipywidgets.HTML(), False
        for control in controls.values():
            control.style.description_width = "initial"  # no label is cut
            control.layout.margin = "2px 18px 2px 2px"
            control.layout.width = {SelectionSlider: "380px", IntSlider: "300px", Text: "380px"}.get(
                type(control), "auto"
            )
            control.observe(self.redraw, names="value")
        row = ipywidgets.HBox(list(controls.values()), layout=ipywidgets.Layout(flex_flow="row wrap"))
        self.box = ipywidgets.VBox([row, self.html])
        self.redraw()

    def values(self):
        """What the controls say: {name: value}."""
        return {name: control.value for name, control in self.controls.items()}

    def draw(self):
        """The drawing of the present state, as text."""
        return svg.document(*self._picture(**self.values()))

    def table(self):
        """The numbers of the present state, as text."""
        return self._table(**self.values())

    def still(self):
        """The present state as a still picture, with its text alternative."""
        return self._still(**self.values())

    def redraw(self, change=None):
        """Show the present state.  What goes wrong is said in the view, until a state that works."""
        if self.paused:
            return
        try:
            self.html.value = self.draw()
        except Exception as error:
            words = svg.escape(_failed("This view", error))
            look = "border:3px solid #b00;padding:8px;background:#fff;color:#222"
            self.html.value = f'<p role="alert" style="{look}">{words}</p>'

    def _ipython_display_(self):
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


def heads(weights, tokens, key_tokens=None, layer_names=None, batch=None):
    """All heads of a layer at once, one of them large, one row of it as bars.

    weights: (h, T, S), or (B, h, T, S) with `batch` chosen unless B = 1, or a list of such, one per layer; tensors
    or arrays.  tokens name the T queries, key_tokens the S keys (the same unless given).
    Raises TypeError or ValueError, with what to do, for weights that are none, averaged, or do not sum to one.
    """
    layers = [layer_weights(layer, batch) for layer in (weights if _is_per_layer(weights) else [weights])]
    tokens = figures.printable(tokens)
    keys = tokens if key_tokens is None else figures.printable(key_tokens)
    for layer in layers:
        check_counts(layer, tokens, keys)
    names = [f"layer {number}" for number in range(len(layers))] if layer_names is None else list(layer_names)
    if len(names) != len(layers):
        raise ValueError(f"layer_names has {len(names)} names for {len(layers)} layers: give one for each")
    last = min(len(layer) for layer in layers) - 1
    controls = {
        "layer": SelectionSlider(options=_numbered(names), description="Layer"),
        "head": IntSlider(min=0, max=last, description="Head"),
        "query": SelectionSlider(options=_numbered(tokens), description="Query"),
        "show": SelectionSlider(options=["one head", "average", "maximum", "difference"], description="Show"),
        "other": IntSlider(min=0, max=last, value=min(1, last), description="Minus head"),
        "lines": Checkbox(description="As lines", indent=False),
        "hide": Checkbox(description="Hide special tokens", indent=False),
    }
    for control, idle in (("layer", len(layers) == 1), ("hide", not SPECIAL & {*tokens, *keys})):
        controls[control].layout.display = "none" if idle else ""

    def enable(change=None):  # a control that would do nothing is grey
        show = controls["show"].value
        controls["head"].disabled = show in ("average", "maximum")
        controls["other"].disabled, controls["lines"].disabled = show != "difference", show == "difference"

    controls["show"].observe(enable, names="value")
    enable()

    def chosen(layer, head, query, show, other, lines, hide):
        """The layer's maps, the large one, its tokens on both sides, the row of the query, and two titles."""
        t = [i for i, token in enumerate(tokens) if not (hide and token in SPECIAL)]
        s = [i for i, token in enumerate(keys) if not (hide and token in SPECIAL)]
        if not t or not s:
            raise ValueError("every token here is special: untick “Hide special tokens”")
        maps = layers[layer][:, t][:, :, s]
        row = t.index(query) if query in t else 0
        said = f"row of {tokens[t[row]]}" + ("" if query in t else f" ({tokens[query]} is hidden)")
        if hide:
            sums = maps.sum(axis=-1, keepdims=True)
            if show == "one head":
                said += f", {sums[head, row, 0]:.2f} of it left"
            maps = np.divide(maps, sums, out=np.zeros_like(maps), where=sums > 0)
        large, title = {
            "one head": (maps[head], f"head {head}"),
            "average": (maps.mean(axis=0), "average of all heads"),
            "maximum": (maps.max(axis=0), "maximum of all heads"),
            "difference": (maps[head] - maps[other], f"head {head} minus head {other}"),
        }[show]
        title = f"{names[layer]}, {title}" if len(layers) > 1 else title
        title += ", special tokens hidden and rows renormalised" if hide else ""
        return maps, large, [tokens[i] for i in t], [keys[i] for i in s], row, title, said

    def picture(**state):
        maps, large, rows, columns, row, title, said = chosen(**state)
        signed = state["show"] == "difference"
        parts, y = svg.heads_panel(maps, state["head"] if state["show"] in ("one head", "difference") else None)
        if state["lines"] and not signed:
            panel, end = svg.lines_panel(10, y + 30, large, rows, columns, row)
        else:
            panel, end = svg.map_panel(10, y + 30, large, rows, columns, row, signed)
        bars, bars_end = svg.bars_panel(560, y + 64, large[row], columns, said, signed)
        parts += [svg.text(10, y + 20, title, 15), *svg.legend(720, y + 9, signed), *panel, *bars]
        return parts, 900, max(end, bars_end) + 10, f"{title}; {said}: {_most(large[row], columns)}"

    def table(**state):
        _, large, rows, columns, _, title, _ = chosen(**state)
        width = max(6, *map(len, rows), *map(len, columns)) + 1
        lines = [f"{title}; rows are queries, columns are keys"]
        lines.append(" " * width + "".join(f"{key:>{width}}" for key in columns))
        for token, line in zip(rows, large, strict=True):
            lines.append(f"{token:<{width}}" + "".join(f"{weight:{width}.2f}" for weight in line))
        return "\n".join(lines)

    def still(**state):
        maps, _, rows, columns, _, title, _ = chosen(**state)
        place = f"{names[state['layer']]}: " if len(layers) > 1 else ""
        hidden = "; special tokens hidden" if state["hide"] else ""
        habits = "; ".join(f"head {head} {_habit(weights, rows, columns)}" for head, weights in enumerate(maps))
        alt = f"{len(maps)} heatmaps of {len(rows)} by {len(columns)}{hidden}. Largest mean weight: {habits}."
        title = f"{place}{'both' if len(maps) == 2 else f'all {len(maps)}'} heads at once".capitalize()
        return figures.head_grid(torch.tensor(maps), rows, columns, title=title, alt=alt)

    return View("heads", controls, picture, table, still)


def softmax_scale():
    """One query and eight keys of random numbers: how d_k sharpens a row, and √d_k keeps it even."""
    draws = torch.Generator().manual_seed(2)
    q, k = torch.randn(512, generator=draws), torch.randn(8, 512, generator=draws)
    names = [f"key {s}" for s in range(8)]
    controls = {
        "d_k": SelectionSlider(options=[4, 8, 16, 32, 64, 128, 256, 512], value=64, description="d_k"),
        "scaled": Checkbox(description="Divide by √d_k", indent=False),
    }

    def state(d_k, scaled):
        scores = k[:, :d_k] @ q[:d_k]
        row = (scores / d_k**0.5 if scaled else scores).softmax(dim=-1).numpy()
        division = "divided by √d_k" if scaled else "not divided"
        return row, names, f"d_k = {d_k}, {division}: the largest weight is {row.max():.2f}"

    return _row_view("softmax_scale", controls, state)


def mask(q=None, k=None, tokens=SENTENCE):
    """One row of attention while you hide keys: what is left stays a distribution; hide all, and it is zero.

    q, k (T, d_k): those of lesson 01, say; random ones unless given.
    """
    draws = torch.Generator().manual_seed(0)
    if (q is None) != (k is None):
        raise ValueError("mask() takes both q and k, or neither: their scores make the row")
    q, k = (torch.randn(len(tokens), 4, generator=draws) if x is None else torch.as_tensor(x).cpu() for x in (q, k))
    if q.shape != k.shape or q.shape[:-1] != (len(tokens),):
        shapes = f"q has shape {tuple(q.shape)} and k {tuple(k.shape)}"
        raise ValueError(f"{shapes}, wanted (T, d_k) with T = {len(tokens)}, one row for each token")
    q, k = q.detach().float(), k.detach().float()
    controls = {"query": SelectionSlider(options=_numbered(tokens), value=min(2, len(tokens) - 1), description="Query")}
    controls |= {f"hide{s}": Checkbox(description=f"hide {t}", indent=False) for s, t in enumerate(tokens)}

    def state(query, **hidden):
        seen = ~torch.tensor(list(hidden.values()))
        row = scaled_dot_product_attention(q[query : query + 1], k, k, seen[None])[1][0].numpy()
        names = [token if sees else f"{token} (hidden)" for token, sees in zip(tokens, seen.tolist(), strict=True)]
        sums = f"the row sums to {row.sum():.2f}" if seen.any() else "nothing to see, the row is zero"
        return row, names, f"{tokens[query]} sees {int(seen.sum())} of {len(tokens)} keys: {sums}"

    return _row_view("mask", controls, state)


def two_peaks():
    """One row that is asked for two tokens, and what two outputs can read from the mixture that comes back.

    Values are one-hot: what comes back of each token is its weight, and an output reads what it has most of.
    """
    controls = {
        "share": IntSlider(value=50, max=100, step=5, description="% on the token before"),
        "swapped": Checkbox(description="the two change places", indent=False),
    }

    def state(share, swapped):
        names = list(SENTENCE[:5])
        names[3:] = names[:2:-1] if swapped else names[3:]
        row = np.zeros(5)
        row[4], row[3] = share / 100, 1 - share / 100
        if share == 50:
            return row, names, f"“{names[4]}” and “{names[3]}” are there, half and half: which was nearer is lost"
        read = names[int(row.argmax())]
        wrong = 2 if read == names[4] else 1
        return row, names, f"There is most of “{read}”, so both outputs say “{read}”: output {wrong} is wrong"

    return _row_view("two_peaks", controls, state)


def translate(model, first="3 May 1979"):
    """A box for a date in your own way of writing: the translation, whether to trust it, and where heads looked.

    model: the Transformer of lesson 07.  What cannot be read gets a sentence.  Trust is a matter of `dates.caution`,
    which asks the formats; the model's own doubt is shown beside that of 1,000 validation dates.
    """
    heads_there = model.decoder[0].cross.num_heads
    place = next(model.parameters()).device
    validation = dates.pairs(1000, dates.all_dates("validation"), seed=3)
    usual = dates.doubts(model, [text for text, _ in validation])
    controls = {
        "date": Text(value=first, description="A date", continuous_update=False),
        "head": IntSlider(max=heads_there - 1, description="Head"),
    }

    def run(date):
        """The characters, the ISO date with its probabilities, the cross weights (h, 10, S), and three lines."""
        source = dates.encode([date]).to(place)
        symbols, shares = model.greedy(source, dates.START, 10)
        with torch.no_grad():
            _, maps = model(source, dates.inputs(symbols))
        (iso,), doubt, clean = dates.decode(symbols), 1 - shares.prod().item(), dates.clean(date)
        why = dates.caution(date, iso)
        trust = f"⚠ A guess: {why}." if why else f"✓ One of its {len(dates.FORMATS)} formats writes this day just so."
        more = (usual < doubt).sum()
        doubted = f"Its doubt: {doubt:.1%}, more than {more:,} of {len(usual):,} validation dates had."
        words = [f"{clean} → {iso}", trust, doubted]
        return list(clean.replace(" ", "␣")), list(iso), shares[0].tolist(), maps["cross"][0][0].cpu().numpy(), words

    def picture(date, head):
        try:
            signs, iso, shares, table, words = run(date)
        except ValueError as error:
            lines = textwrap.wrap(f"This cannot be translated: {error}.", 100)
            parts = [svg.text(10, 24 + 20 * number, line, 14) for number, line in enumerate(lines)]
            return parts, 860, 20 + 20 * len(lines), " ".join(lines)
        lines = [line for sentence in words[1:] for line in textwrap.wrap(sentence, 84)]
        top = 20 * len(lines)  # the map has room above it
        parts = [svg.text(10, 24, words[0], 16)]
        parts += [svg.text(10, 48 + 20 * number, line, 14) for number, line in enumerate(lines)]
        rows = [f"{sign}  {share:.2f}" for sign, share in zip(iso, shares, strict=True)]
        drawn, end = svg.map_panel(0, top, table[head], rows, signs, 0)
        parts += drawn[:-1]  # without the frame of a chosen row
        parts.append(svg.text(10, end + 30, "Looked at most, head by head:", 14))
        for number, weights in enumerate(table):
            y = end + 42 + 26 * number
            parts.append(svg.text(84, y + 17, f"head {number}", 13, "end"))
            for step, row in enumerate(weights):
                sign = signs[int(row.argmax())]
                hover = f"{iso[step]} looked at {sign}, {row.max():.2f}"
                parts.append(svg.cell(96 + 30 * step, y, 30, 24, "#fff", sign, hover))
        return parts, 640, end + 50 + 26 * heads_there, f"{' '.join(words)} Head {head} is drawn large."

    def table(date, head):
        try:
            signs, iso, shares, maps, words = run(date)
        except ValueError as error:
            return f"This cannot be translated: {error}."
        lines = list(words)
        for step, sign in enumerate(iso):
            looked = " ".join(signs[int(row.argmax())] for row in maps[:, step])
            lines.append(f"{sign}  {shares[step]:.3f}  heads 0 to {heads_there - 1} looked at {looked}")
        return "\n".join(lines)

    def still(date, head):
        signs, iso, _, maps, words = run(date)  # the stored picture is of the first date, which is one
        names = [f"head {number}" for number in range(len(maps))]
        shape = f"{len(maps)} cross heads, ten outputs down and {len(signs)} characters across"
        title = " ".join(words[:2])  # without the doubt, whose digits differ from machine to machine
        return figures.head_grid(
            torch.tensor(maps), iso, signs, title=title, alt=f"{title} Heatmaps of {shape}.", names=names
        )

    return View("translate", controls, picture, table, still)


STEPS = ["project", "split", "transpose", "attend", "transpose back", "merge"]
PATHS = {  # the calls that make steps 1 to 5; an empty one was forgotten
    "right path": ["view(T, h, d_k)", "transpose(0, 1)", "attend", "transpose(0, 1)", "reshape(T, d)"],
    "wrong split": ["view(h, T, d_k)", "", "attend", "transpose(0, 1)", "reshape(T, d)"],
    "wrong merge": ["view(T, h, d_k)", "transpose(0, 1)", "attend", "", "reshape(T, d)"],
}


def reshape(T=6, h=2, d_k=4):
    """A small q on its way through the heads and back, on the right path and on two wrong ones.

    Numbers are addresses, token.feature, in the colour of the head that the feature belongs to.  In the step
    "attend" each token looks at itself alone, so that the addresses stay readable.
    Raises TypeError or ValueError for sizes whose boxes do not fit on a page.
    """
    T, h, d_k = whole(T, "T"), whole(h, "h"), whole(d_k, "d_k")
    if min(T, h, d_k) < 1 or max(T, h) * (2 * d_k + 1) > 64:
        sizes = f"T={T}, h={h}, d_k={d_k}"
        raise ValueError(
            f"{sizes}: boxes are drawn for at most 64 / (2·d_k + 1) tokens and heads, and at least one of each"
        )
    controls = {
        "path": SelectionSlider(options=list(PATHS), description="Path"),
        "step": SelectionSlider(options=_numbered(STEPS), description="Step"),
    }
    shapes = {"view(T, h, d_k)": (T, h, d_k), "view(h, T, d_k)": (h, T, d_k), "reshape(T, d)": (T, h * d_k)}

    def walk(path, step):
        """The addresses after this step, what each grid of them is (a head or a token), and a title."""
        now, call, grids = figures.addresses(T, h * d_k), "q = x W_Q", ""
        for call in PATHS[path][:step]:
            if call in shapes:
                now, grids = now.reshape(shapes[call]), "token" if call.startswith("view(T") else "head"
            elif call == "transpose(0, 1)":
                now, grids = now.transpose(0, 1), "token" if grids == "head" else "head"
        return now, grids, f"Step {step}, {STEPS[step]}: {call or 'forgotten'} → shape {tuple(now.shape)}"

    def verdict(path, step):
        """What to see in this step."""
        now, _, _ = walk(path, step)
        if step in (2, 3):
            simple = " Here each looks at itself alone, to keep the addresses readable." if step == 3 else ""
            return f"Head 0 holds tokens {_tokens_in(now[0])}.{simple}"
        if step == 5:
            return f"Row 0 holds what the heads say of: token {_tokens_in(now[0])}."
        return "Numbers are token.feature; the colour is the head that a feature belongs to."

    def picture(path, step):
        now, grids, title = walk(path, step)
        if now.dim() == 2:
            parts, _ = svg.boxes_panel(20, 50, now[None], d_k)
        else:  # one grid for each step along the first axis
            parts, _ = svg.boxes_panel(20, 50, now, d_k, grids)
        end = 50 + 30 * max(T, h)
        said = verdict(path, step)
        parts += [svg.text(10, 24, f"{path}. {title}", 15), svg.text(10, end + 46, said, 15)]
        return parts, 780, end + 60, f"{path}. {title}. {said}"

    def table(path, step):
        now, _, title = walk(path, step)
        rows = [" ".join(f"{a // 100}.{a % 100}" for a in row) for row in now.flatten(0, -2).long().tolist()]
        return "\n".join([f"{path}. {title}", *rows, verdict(path, step)])

    def still(path, step):
        stages = {"q": walk(path, 0)[0], "in heads": walk(path, 3)[0], "merged": walk(path, 5)[0]}
        alt = f"Boxes, {path}. {verdict(path, 2)} {verdict(path, 5)}"
        return figures.shape_walk(stages, d_k, title=f"Split into heads and merged again: {path}", alt=alt)

    return View("reshape", controls, picture, table, still)


def parameter_budget():
    """d, h, layers, biases and vocabulary: the bar that h does not move, and the tables of weights that it does."""
    controls = {
        "d_model": SelectionSlider(options=[32, 64, 128, 256, 512, 768, 1024], value=512, description="d"),
        "heads": SelectionSlider(options=_offered(512), value=8, description="Heads h"),
        "layers": IntSlider(value=12, min=1, max=48, description="Layers"),
        "vocabulary": SelectionSlider(options=[0, 1000, 30522, 50257], description="Vocabulary"),
        "tokens": SelectionSlider(options=[64, 128, 256, 512, 1024, 2048], value=256, description="Tokens T"),
        "bias": Checkbox(description="Biases", indent=False),
    }

    def offer(change):  # only heads that divide the new d; the one chosen stays where it does
        allowed, held = _offered(change["new"]), controls["heads"].value
        view.paused = True  # no drawing between the two moves
        controls["heads"].options = allowed
        controls["heads"].value = held if held in allowed else max(h for h in allowed if h <= held)
        view.paused = False

    controls["d_model"].observe(offer, names="value")

    def count(d_model, heads, layers, vocabulary, tokens, bias):
        pieces = stack_parameters(layers, d_model, heads, bias=bias, vocabulary=vocabulary)
        tables = {h: layers * table_bytes(h, tokens) / 2**20 for h in (heads, max(_offered(d_model)))}
        title = f"{sum(pieces.values()):,} parameters with any h"
        return pieces, tables, title, f"{tables[heads]:,.1f} MiB of attention weights with h = {heads}, T = {tokens}"

    def picture(**values):
        pieces, tables, title, memory = count(**values)
        (_, now), (most_heads, most) = next(iter(tables.items())), list(tables.items())[-1]
        parts, x, full = [svg.text(10, 24, title, 15), svg.cell(10, 34, 700, 40, "#fff")], 10.0, 10_000
        while full < sum(pieces.values()):
            full *= 10
        for shade, (piece, number) in zip(figures.HEADS, pieces.items(), strict=False):
            width = 700 * number / full
            parts.append(svg.cell(x, 34, width, 40, shade, piece if width > 80 else "", f"{piece} {number:,}"))
            x += width
        said = ", ".join(f"{piece} {number:,}" for piece, number in pieces.items())
        parts.append(svg.text(10, 94, f"{said}. The frame is {full:,}."))
        parts += [svg.text(10, 138, memory, 15), svg.cell(10, 148, 700, 40, "#fff")]
        parts.append(svg.cell(10, 148, 700 * now / most, 40, figures.WEIGHTS[3], hover=memory))
        parts.append(svg.text(10, 208, f"The frame is {most:,.1f} MiB: h = {most_heads}. One text, float32."))
        return parts, 760, 220, f"{title}; {memory}"

    def table(**values):
        pieces, _, title, memory = count(**values)
        return "\n".join([title, *(f"{piece:13} {number:>14,}" for piece, number in pieces.items()), memory])

    def still(**values):
        pieces, _, title, memory = count(**values)
        rows = {f"h = {h}": pieces for h in dict.fromkeys((1, values["heads"], max(_offered(values["d_model"]))))}
        alt = f"Equal bars for {', '.join(rows)}: {title}; {memory}."
        return figures.bars(rows, unit="parameters", title=f"{title}; the tables are another matter", alt=alt)

    view = View("parameter_budget", controls, picture, table, still)
    return view


def _row_view(name, controls, state):
    """A view of one row of weights as bars.  state(**values) returns the row, its names and a title."""

    def picture(**values):
        row, names, title = state(**values)
        parts, end = svg.bars_panel(10, 10, row, names, title)
        return parts, 560, end + 10, f"{title}; {_most(row, names)}"

    def table(**values):
        row, names, title = state(**values)
        return "\n".join([title, *(f"{n:16} {weight:.3f}" for n, weight in zip(names, row, strict=True))])

    def still(**values):
        row, names, title = state(**values)
        names = names if len(set(names)) == len(names) else [f"{s} {n}" for s, n in enumerate(names)]  # bars need keys
        shares = dict(zip(names, row.tolist(), strict=True))
        alt = "Bars: " + ", ".join(f"{n} {share:.2f}" for n, share in shares.items()) + "."
        return figures.bars(shares, unit="weight", numbers="{:.2f}", title=title, alt=alt)

    return View(name, controls, picture, table, still)


def _numbered(names):
    """Options for a slider, each with its number: tokens may repeat."""
    return [(f"{number} {name}", number) for number, name in enumerate(names)]


def _offered(d_model):
    """Head counts to choose from: those that divide d, as far as 64."""
    return [h for h in allowed_heads(d_model) if h <= 64]


def _tokens_in(addresses):
    return ", ".join(str(token) for token in (addresses // 100).unique().int().tolist())


def _most(row, names):
    """What a row gives to whom."""
    if not row.any():
        return "nothing to anybody, it is zero"
    best = int(np.abs(row).argmax())
    return f"most to {names[best]}, {row[best]:.2f}"


def _habit(weights, rows, columns):
    """Where most of one head's weight lies on average: on one key, or on one place seen from the query."""
    labels = [f"on “{key}”" if columns.count(key) == 1 else f"on “{key}” (key {s})" for s, key in enumerate(columns)]
    shares = dict(zip(labels, weights.mean(axis=0), strict=True))
    if rows == columns:
        places = {"one back": -1, "itself": 0, "one on": 1}
        shares |= {place: np.diagonal(weights, offset).mean() for place, offset in places.items() if len(rows) > 1}
    best = max(shares, key=lambda name: round(float(shares[name]), 2))  # rounded: of equals, the first on any machine
    return f"{best} {shares[best]:.2f}"


def _failed(what, error):
    """One sentence on an error."""
    return f"{what} failed with {type(error).__name__}: {' '.join(str(error).split())}"


def _is_per_layer(weights):
    """Whether this is a list of layers, and not one layer written as nested lists."""
    if isinstance(weights, (list, tuple)) and not weights:
        raise ValueError("weights are an empty list, wanted one table (h, T, S) for each layer: was the model run?")
    return isinstance(weights, (list, tuple)) and not isinstance(weights[0], (list, tuple))
