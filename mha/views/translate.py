"""A date in the learner's own writing: its translation, whether to trust it, and where heads looked."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from ipywidgets import IntSlider, Text

from mha import figures, palette
from mha.tasks import dates
from mha.transformer import Transformer
from mha.views import svg
from mha.views.view import View


@dataclass
class Translation:
    """The characters that were read and written, the cross weights (h, 10, S), and three sentences."""

    read: list[str]
    iso: list[str]
    probabilities: list[float]
    maps: np.ndarray
    words: list[str]
    head: int


class Translate(View):
    """A typed date and its translation.  Where it cannot be read, the state is the sentence that says why."""

    def __init__(self, model: Transformer, first: str = "3 May 1979") -> None:
        layer: Any = model.decoder[0]
        self.model, self.num_heads = model, layer.cross.num_heads
        validation = dates.pairs(1000, dates.all_dates("validation"), seed=3)
        self.usual = dates.doubts(model, [text for text, _ in validation])
        controls = {
            "date": Text(value=first, description="A date", continuous_update=False),
            "head": IntSlider(max=self.num_heads - 1, description="Head"),
        }
        super().__init__("translate", controls)

    def _state(self, date: str, head: int) -> Translation | str:
        try:
            source = dates.encode([date]).to(next(self.model.parameters()).device)
        except ValueError as error:
            return f"This cannot be translated: {error}."
        symbols, probabilities = self.model.greedy(source, dates.START, 10)
        with torch.no_grad():
            _, maps = self.model(source, dates.inputs(symbols))
        (iso,), doubt, clean = dates.decode(symbols), 1 - probabilities.prod().item(), dates.clean(date)
        why = dates.caution(date, iso)
        trust = f"⚠ A guess: {why}." if why else f"✓ One of its {len(dates.FORMATS)} formats writes this day just so."
        more = (self.usual < doubt).sum()
        doubted = f"Its doubt: {doubt:.1%}, more than {more:,} of {len(self.usual):,} validation dates had."
        words = [f"{clean} → {iso}", trust, doubted]
        maps = maps["cross"][0][0].cpu().numpy()
        return Translation(list(clean.replace(" ", "␣")), list(iso), probabilities[0].tolist(), maps, words, head)

    def _picture(self, state: Translation | str) -> svg.Drawing:
        if isinstance(state, str):
            lines = textwrap.wrap(state, 100)
            parts = [svg.text(10, 24 + 20 * number, line, 14) for number, line in enumerate(lines)]
            return parts, 860, 20 + 20 * len(lines), " ".join(lines)
        lines = [line for sentence in state.words[1:] for line in textwrap.wrap(sentence, 84)]
        top = 20 * len(lines)  # the map has room above it
        parts = [svg.text(10, 24, state.words[0], 16)]
        parts += [svg.text(10, 48 + 20 * number, line, 14) for number, line in enumerate(lines)]
        rows = [f"{sign}  {share:.2f}" for sign, share in zip(state.iso, state.probabilities, strict=True)]
        drawn, end = svg.map_panel(0, top, state.maps[state.head], rows, state.read, 0)
        parts += drawn[:-1]  # without the frame of a chosen row
        parts += self._looked_at_most(state, end + 30)
        words = f"{' '.join(state.words)} Head {state.head} is drawn large."
        return parts, 640, end + 50 + 26 * self.num_heads, words

    def _looked_at_most(self, state: Translation, y: float) -> Iterator[str]:
        """For each head a line of the characters that the ten outputs looked at most."""
        yield svg.text(10, y, "Looked at most, head by head:", 14)
        for number, weights in enumerate(state.maps):
            top = y + 12 + 26 * number
            yield svg.text(84, top + 17, f"head {number}", 13, "end")
            for step, row in enumerate(weights):
                sign = state.read[int(row.argmax())]
                hover = f"{state.iso[step]} looked at {sign}, {row.max():.2f}"
                yield svg.cell(96 + 30 * step, top, 30, 24, palette.PAPER, sign, hover)

    def _table(self, state: Translation | str) -> str:
        if isinstance(state, str):
            return state
        lines = list(state.words)
        for step, sign in enumerate(state.iso):
            looked = " ".join(state.read[int(row.argmax())] for row in state.maps[:, step])
            share = state.probabilities[step]
            lines.append(f"{sign}  {share:.3f}  heads 0 to {self.num_heads - 1} looked at {looked}")
        return "\n".join(lines)

    def _still(self, state: Translation | str) -> figures.Picture:
        if isinstance(state, str):
            raise ValueError(state)
        names = [f"head {number}" for number in range(len(state.maps))]
        shape = f"{len(state.maps)} cross heads, ten outputs down and {len(state.read)} characters across"
        title = " ".join(state.words[:2])  # without the doubt, whose digits differ from machine to machine
        alt = f"{title} Heatmaps of {shape}."
        return figures.head_grid(torch.tensor(state.maps), state.iso, state.read, title=title, alt=alt, names=names)
