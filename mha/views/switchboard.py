"""The heads of a trained translator as switches: what is still right without those that are off."""

from typing import Any

from ipywidgets import Button, Checkbox, HBox, Layout, SelectionSlider, VBox

from mha import figures, palette, pruning, sweep
from mha.tasks import dates
from mha.transformer import Transformer
from mha.views import svg
from mha.views.view import View, numbered

PLACES = ("encoder", "decoder", "cross")  # the layers, in the order of `sweep.attentions`
TEXTS = ("3 May 1979", "Sunday, February 29, 2032", "19 Dec 2078", "07/04/2015")
WANTED = 0.99
State = tuple[list[tuple[int, int]], dict[str, float], str, str, bool]  # as `_state` says


class Switchboard(View):
    """Tick a head, and it says nothing; the share of 300 validation dates that are right follows, field by field."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.layers = model, sweep.attentions(model)
        self.examples = dates.pairs(300, dates.all_dates("validation"), seed=2)
        self.switches = {f"{place}{head}": (number, head) for number, place in enumerate(PLACES) for head in range(4)}
        controls = {name: Checkbox(description=f"head {name[-1]} off", indent=False) for name in self.switches}
        controls["text"] = SelectionSlider(options=numbered(TEXTS), description="A date")
        controls["best"] = Checkbox(description="Show the smallest set known", indent=False)
        self.past: list[tuple[Checkbox, bool]] = []
        super().__init__("switchboard", controls)
        self._arrange()

    def _arrange(self) -> None:
        """A row of switches for each layer, and below them what takes moves back."""
        rows = []
        for number, place in enumerate(PLACES):
            switches = [control for name, control in self.controls.items() if self.switches.get(name, "-")[0] == number]
            for control in switches:
                control.description = f"{place} {control.description}"
                control.layout.width = "160px"
                control.observe(self._remember, names="value")
            rows.append(HBox(switches, layout=Layout(flex_flow="row wrap")))
        undo, all_on = Button(description="Undo"), Button(description="All on")
        undo.on_click(lambda _: self.undo())
        all_on.on_click(lambda _: self.all_on())
        rows.append(HBox([self.controls["text"], self.controls["best"], undo, all_on], layout=rows[0].layout))
        self.box.children = [VBox(rows), self.html]

    def _remember(self, change: dict[str, Any]) -> None:
        self.past.append((change["owner"], change["old"]))

    def undo(self) -> None:
        """Take the last move back."""
        if self.past:
            control, value = self.past.pop()
            control.value = value
            self.past.pop()  # the move back is no move

    def all_on(self) -> None:
        """Switch on every head that is off."""
        for name in self.switches:
            self.controls[name].value = False

    def _state(self, text: int, best: bool, **off: bool) -> State:
        """What is off, the four shares that are right, the chosen date and its translation."""
        pairs = [self.switches[name] for name, is_off in off.items() if is_off]
        with pruning.all_off(self.layers, pairs):
            shares = dates.right(self.model, self.examples).tolist()
            source = dates.encode([TEXTS[text]]).to(next(self.model.parameters()).device)
            (iso,) = dates.decode(self.model.greedy(source, dates.START, 10)[0])
        return pairs, dict(zip(("dates", "years", "months", "days"), shares, strict=True)), TEXTS[text], iso, best

    def _words(self, state: State) -> list[str]:
        pairs, shares, text, iso, best = state
        enough = "enough for" if shares["dates"] >= WANTED else "less than"
        lines = [f"{12 - len(pairs)} of 12 heads on: {shares['dates']:.1%} of 300 dates right, {enough} 99 %"]
        lines.append(f"{text} → {iso}")
        if best:
            on, right, gone = sweep.smallest_set(WANTED)
            named = ", ".join(f"{PLACES[layer]} {head}" for layer, head in gone)
            lines.append(f"The smallest known: {on} heads on, {right / 300:.1%} right, off are {named}")
        return lines

    def _picture(self, state: State) -> svg.Drawing:
        pairs, shares, *_ = state
        lines, parts = self._words(state), []
        for number, place in enumerate(PLACES):
            y = 14 + 34 * number
            parts.append(svg.text(84, y + 19, place, 13, "end"))
            for head in range(4):
                is_off = (number, head) in pairs
                fill, ink = (palette.PAPER, palette.INK) if is_off else (palette.WEIGHTS[4], palette.PAPER)
                told = f"{head} {'off' if is_off else 'on'}"
                parts.append(svg.cell(96 + 76 * head, y, 70, 28, fill, told, f"{place} head {told}", ink))
        for number, (name, share) in enumerate(shares.items()):
            y = 14 + 26 * number
            parts.append(svg.text(500, y + 15, name, 13, "end"))
            parts.append(svg.cell(508, y, 220, 20, palette.PAPER))
            parts.append(svg.cell(508, y, 220 * share, 20, palette.WEIGHTS[3], hover=f"{name} {share:.1%}"))
            parts.append(svg.text(734, y + 15, f"{share:.1%}"))
        parts += [svg.text(10, 140 + 24 * number, line, 15) for number, line in enumerate(lines)]
        return parts, 800, 132 + 24 * len(lines), ". ".join(lines)

    def _table(self, state: State) -> str:
        pairs, shares, *_ = state
        off = ", ".join(f"{PLACES[layer]} {head}" for layer, head in pairs) or "none"
        return "\n".join(
            [*self._words(state), f"off: {off}", *(f"{name:7}{share:7.1%}" for name, share in shares.items())]
        )

    def _still(self, state: State) -> figures.Picture:
        pairs, shares, *_ = state
        lines = self._words(state)
        told = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
        off = ", ".join(f"{PLACES[layer]} {head}" for layer, head in pairs) or "no head"
        alt = f"Bars of what is right: {told}. Off: {off}. {lines[1]}."
        return figures.bars(
            {name: 100 * share for name, share in shares.items()},
            unit="of 100 right", numbers="{:.1f}", title=lines[0], alt=alt,
        )  # fmt: skip
