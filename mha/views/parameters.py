"""Parameters and tables of a stack: the bar that h does not move, and the tables of weights that it does."""

from dataclasses import dataclass
from typing import Any

from ipywidgets import Checkbox, IntSlider, SelectionSlider

from mha import figures, palette
from mha.accounting import stack_parameters, table_bytes
from mha.attention import allowed_heads
from mha.views import svg
from mha.views.view import View


@dataclass
class Budget:
    """Parameters by piece, MiB of attention weights with the chosen h and with the most heads, and both in words."""

    d_model: int
    heads: int
    pieces: dict[str, int]
    now: float
    most: float
    title: str
    memory: str


class ParameterBudget(View):
    """d, h, layers, biases and vocabulary against parameters and bytes."""

    def __init__(self) -> None:
        controls = {
            "d_model": SelectionSlider(options=[32, 64, 128, 256, 512, 768, 1024], value=512, description="d"),
            "heads": SelectionSlider(options=_offered(512), value=8, description="Heads h"),
            "layers": IntSlider(value=12, min=1, max=48, description="Layers"),
            "vocabulary": SelectionSlider(options=[0, 1000, 30522, 50257], description="Vocabulary"),
            "tokens": SelectionSlider(options=[64, 128, 256, 512, 1024, 2048], value=256, description="Tokens T"),
            "bias": Checkbox(description="Biases", indent=False),
        }
        controls["d_model"].observe(self._offer, names="value")
        super().__init__("parameter_budget", controls)

    def _offer(self, change: dict[str, Any]) -> None:
        """Only heads that divide the new d; the one chosen stays where it does."""
        heads = self.controls["heads"]
        allowed, held = _offered(change["new"]), heads.value
        self.paused = True  # no drawing between the two moves
        heads.options = allowed
        heads.value = held if held in allowed else max(h for h in allowed if h <= held)
        self.paused = False

    def choices(self) -> dict[str, list[tuple[str, Any]]]:
        """What each control offers; of heads those of any d."""
        offered = super().choices()
        heads = sorted({h for _, d_model in offered["d_model"] for h in _offered(d_model)})
        return offered | {"heads": [(str(h), h) for h in heads]}

    def _fits(self, **values: Any) -> bool:
        return values["heads"] in _offered(values["d_model"])

    def _state(self, d_model: int, heads: int, layers: int, vocabulary: int, tokens: int, bias: bool) -> Budget:
        pieces = stack_parameters(layers, d_model, heads, bias=bias, vocabulary=vocabulary)
        now, most = (layers * table_bytes(h, tokens) / 2**20 for h in (heads, max(_offered(d_model))))
        title = f"{sum(pieces.values()):,} parameters with any h"
        memory = f"{now:,.1f} MiB of attention weights with h = {heads}, T = {tokens}"
        return Budget(d_model, heads, pieces, now, most, title, memory)

    def _picture(self, state: Budget) -> svg.Drawing:
        parts, x, full = [svg.text(10, 24, state.title, 15), svg.cell(10, 34, 700, 40, palette.PAPER)], 10.0, 10_000
        while full < sum(state.pieces.values()):
            full *= 10
        for number, (piece, count) in enumerate(state.pieces.items()):
            width, hover = 700 * count / full, f"{piece} {count:,}"
            parts.append(svg.cell(x, 34, width, 40, palette.piece(piece, number), piece if width > 80 else "", hover))
            x += width
        said = ", ".join(f"{piece} {count:,}" for piece, count in state.pieces.items())
        parts.append(svg.text(10, 94, f"{said}. The frame is {full:,}."))
        parts += [svg.text(10, 138, state.memory, 15), svg.cell(10, 148, 700, 40, palette.PAPER)]
        parts.append(svg.cell(10, 148, 700 * state.now / state.most, 40, palette.BAR, hover=state.memory))
        most = f"The frame is {state.most:,.1f} MiB: h = {max(_offered(state.d_model))}. One text, float32."
        parts.append(svg.text(10, 208, most))
        return parts, 760, 220, f"{state.title}; {state.memory}"

    def _table(self, state: Budget) -> str:
        pieces = (f"{piece:13} {count:>14,}" for piece, count in state.pieces.items())
        return "\n".join([state.title, *pieces, state.memory])

    def _still(self, state: Budget) -> figures.Picture:
        heads = dict.fromkeys((1, state.heads, max(_offered(state.d_model))))
        rows = {f"h = {h}": state.pieces for h in heads}
        alt = f"Equal bars for {', '.join(rows)}: {state.title}; {state.memory}."
        title = f"{state.title}; the tables are another matter"
        return figures.bars(rows, unit="parameters", title=title, alt=alt)


def _offered(d_model: int) -> list[int]:
    """Head counts to choose from: those that divide d, as far as 64."""
    return [h for h in allowed_heads(d_model) if h <= 64]
