"""The cache of a conversation: a model as it is published, beside one whose layers, heads and width you choose."""

from dataclasses import dataclass
from typing import Any

from ipywidgets import SelectionSlider

from mha import figures, palette
from mha.accounting import cache_bytes
from mha.open_models import read_models
from mha.views import svg
from mha.views.view import View

GPU = 80 * 2**30  # bytes of a large GPU


@dataclass
class Costs:
    """Bytes of the published model's cache and of the chosen one's, and what each is, in words."""

    published: int
    chosen: int
    labels: tuple[str, str]
    title: str
    fits: str


class ConversationCache(View):
    """A model of the list, tokens, and sliders that it sets: bytes of keys and values."""

    def __init__(self) -> None:
        self.models = {model.model: model for model in read_models() if model.kind == "decoder"}

        def offered(name: str) -> list[int]:
            return sorted({getattr(model, name) for model in self.models.values()})

        controls = {
            "model": SelectionSlider(options=list(self.models), value="LLaMA 7B", description="Model"),
            "tokens": SelectionSlider(options=[2**n for n in range(10, 21)], value=2**15, description="Tokens"),
            "layers": SelectionSlider(options=offered("layers"), value=32, description="Layers"),
            "kv_heads": SelectionSlider(options=offered("kv_heads"), value=8, description="Key and value heads"),
            "d_k": SelectionSlider(options=offered("d_k"), value=128, description="d_k"),
        }
        controls["model"].observe(self._set, names="value")
        super().__init__("conversation_cache", controls)

    def _set(self, change: dict[str, Any]) -> None:
        """The sliders, to the sizes of the model."""
        paused, self.paused = self.paused, True  # no drawing between the moves
        for name in ("layers", "kv_heads", "d_k"):
            self.controls[name].value = getattr(self.models[change["new"]], name)
        self.paused = paused

    def _state(self, model: str, tokens: int, layers: int, kv_heads: int, d_k: int) -> Costs:
        published = self.models[model].cache_bytes(tokens)
        chosen = cache_bytes(layers, kv_heads, d_k, tokens)
        labels = (f"{model}, as published", f"{layers} layers, {kv_heads} key heads of {d_k}")
        title = f"{tokens:,} tokens: {_size(published)} as published, {_size(chosen)} as chosen"
        fits = f"{GPU // chosen:,} such conversations fit into 80 GiB, beside nothing else"
        return Costs(published, chosen, labels, title, fits)

    def _picture(self, state: Costs) -> svg.Drawing:
        parts, most = [svg.text(10, 24, state.title, 15)], max(state.published, state.chosen)
        rows = zip(state.labels, (state.published, state.chosen), (palette.MUTED, palette.BAR), strict=True)
        for number, (label, size, shade) in enumerate(rows):
            y = 44 + 62 * number
            parts.append(svg.text(10, y + 12, f"{label}: {_size(size)}"))
            parts.append(svg.cell(10, y + 18, max(1, 700 * size / most), 30, shade, hover=f"{label} {size:,} bytes"))
        parts.append(svg.text(10, 188, f"As chosen, {state.fits}."))
        return parts, 730, 200, f"{state.title}; {state.fits}"

    def _table(self, state: Costs) -> str:
        rows = zip(state.labels, (state.published, state.chosen), strict=True)
        return "\n".join([state.title, *(f"{label:40} {size:>18,} bytes" for label, size in rows), state.fits])

    def _still(self, state: Costs) -> figures.Picture:
        rows = {label: size / 2**30 for label, size in zip(state.labels, (state.published, state.chosen), strict=True)}
        alt = f"Two bars. {state.title}; {state.fits}."
        return figures.bars(
            rows, unit="GiB of keys and values, one text", numbers="{:,.2f}", title=state.title, alt=alt
        )


def _size(count: int) -> str:
    return f"{count / 2**30:,.2f} GiB" if count >= 2**28 else f"{count / 2**20:,.1f} MiB"
