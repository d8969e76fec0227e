"""Heads of models, a line to a model."""

from mha import palette
from mha.figures.look import LABEL, SMALL, Picture, heading, own_settings, sheet, width


@own_settings()
def head_counts(models: list, *, title: str, alt: str) -> Picture:
    """`open_models` from top to bottom: heads of queries, and of keys and values; d_k; and h·d_k over d."""
    figure = sheet(width(), 1.2 + 0.24 * len(models))
    heads, widths, ratios = figure.subplots(1, 3, sharey=True, width_ratios=[2, 1.1, 1.1])
    places, looks = range(len(models)), {"s": 30, "zorder": 2}
    for y, m in enumerate(models):
        if m.latent:
            heads.text(m.heads / 1.3, y, "one vector", ha="right", va="center", fontsize=SMALL)
        else:
            heads.plot([m.kv_heads, m.heads], [y, y], color=palette.MUTED, linewidth=0.8, zorder=1)
    heads.scatter([m.heads for m in models], places, s=60, color=palette.QUERY, zorder=2, label="query heads h")
    shared = [(m.kv_heads, y) for y, m in enumerate(models) if not m.latent]
    heads.scatter(
        *zip(*shared, strict=True), s=20, marker="s", color=palette.KEY, zorder=3, label="key and value heads"
    )
    heads.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, handletextpad=0.1, columnspacing=1)
    widths.scatter([m.d_k for m in models], places, color=palette.BAR, **looks)
    ratios.axvline(1, color=palette.FAINT, linewidth=1)
    for y, m in enumerate(models):
        ratio = m.heads * m.d_k / m.d_model
        ratios.scatter(ratio, y, color=palette.BAR if ratio == 1 else palette.CHOSEN, **looks)
        if ratio != 1:
            look = {"textcoords": "offset points", "va": "center", "fontsize": SMALL}
            ratios.annotate(f"{ratio:.2g}", (ratio, y), (6, 0), **look)
    marks = {
        heads: ("heads", (1, 2, 4, 8, 16, 32, 64, 128)),
        widths: ("d_k", (64, 128, 256)),
        ratios: ("h · d_k / d", (1, 2, 4, 8, 16)),
    }
    for axes, (name, ticks) in marks.items():
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, list(map(str, ticks)))
        axes.minorticks_off()
        axes.set_xlim(ticks[0] / 1.5, ticks[-1] * (2 if axes is ratios else 1.5))
        axes.set_xlabel(name)
        axes.grid(axis="y")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    heads.set_ylim(len(models) - 0.4, -0.6)
    heads.set_yticks(places, [f"{m.model}  {m.date[:4]}" for m in models], fontsize=LABEL)
    heading(figure, title)
    return Picture(figure, alt)
