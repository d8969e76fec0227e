"""A small q on its way through the heads and back, on the right path and on two wrong ones."""

from dataclasses import dataclass

import torch
from ipywidgets import SelectionSlider

from mha import addresses, figures
from mha.checks import whole
from mha.views import svg
from mha.views.view import View, numbered

STEPS = ["project", "split", "transpose", "attend", "transpose back", "merge"]
PATHS = {  # the calls that make steps 1 to 5; an empty one was forgotten
    "right path": ["view(T, h, d_k)", "transpose(0, 1)", "attend", "transpose(0, 1)", "reshape(T, d)"],
    "wrong split": ["view(h, T, d_k)", "", "attend", "transpose(0, 1)", "reshape(T, d)"],
    "wrong merge": ["view(T, h, d_k)", "transpose(0, 1)", "attend", "", "reshape(T, d)"],
}


@dataclass
class Stage:
    """The addresses after a step, what each grid of them is (a head or a token), a title, and what to see."""

    path: str
    now: torch.Tensor
    grids: str
    title: str
    said: str


class Reshape(View):
    """Addresses, step by step.  `mha.explore.reshape` says which sizes it takes."""

    def __init__(self, T: int = 6, h: int = 2, d_k: int = 4) -> None:
        self.T, self.h, self.d_k = whole(T, "T"), whole(h, "h"), whole(d_k, "d_k")
        if min(self.T, self.h, self.d_k) < 1 or max(self.T, self.h) * (2 * self.d_k + 1) > 64:
            sizes = f"T={T}, h={h}, d_k={d_k}"
            raise ValueError(
                f"{sizes}: boxes are drawn for at most 64 / (2·d_k + 1) tokens and heads, and at least one of each"
            )
        controls = {
            "path": SelectionSlider(options=list(PATHS), description="Path"),
            "step": SelectionSlider(options=numbered(STEPS), description="Step"),
        }
        super().__init__("reshape", controls)

    def _state(self, path: str, step: int) -> Stage:
        T, h, d_k = self.T, self.h, self.d_k
        shapes = {"view(T, h, d_k)": (T, h, d_k), "view(h, T, d_k)": (h, T, d_k), "reshape(T, d)": (T, h * d_k)}
        now, call, grids = addresses.make(T, h * d_k), "q = x W_Q", ""
        for call in PATHS[path][:step]:
            if call in shapes:
                now, grids = now.reshape(shapes[call]), "token" if call.startswith("view(T") else "head"
            elif call == "transpose(0, 1)":
                now, grids = now.transpose(0, 1), "token" if grids == "head" else "head"
        title = f"{path}. Step {step}, {STEPS[step]}: {call or 'forgotten'} → shape {tuple(now.shape)}"
        return Stage(path, now, grids, title, _verdict(now, step))

    def _picture(self, state: Stage) -> svg.Drawing:
        blocks = state.now[None] if state.now.dim() == 2 else state.now  # one grid for each step along the first axis
        parts, _ = svg.boxes_panel(20, 50, blocks, self.d_k, "" if state.now.dim() == 2 else state.grids)
        end = 50 + 30 * max(self.T, self.h)
        parts += [svg.text(10, 24, state.title, 15), svg.text(10, end + 46, state.said, 15)]
        return parts, 780, end + 60, f"{state.title}. {state.said}"

    def _table(self, state: Stage) -> str:
        rows = [" ".join(map(addresses.label, row)) for row in state.now.flatten(0, -2).tolist()]
        return "\n".join([state.title, *rows, state.said])

    def _still(self, state: Stage) -> figures.Picture:
        path = state.path
        start, heads, split, merged = (self.state(path=path, step=step) for step in (0, 3, 2, 5))
        stages = {"q": start.now, "in heads": heads.now, "merged": merged.now}
        alt = f"Boxes, {path}. {split.said} {merged.said}"
        return figures.shape_walk(stages, self.d_k, title=f"Split into heads and merged again: {path}", alt=alt)


def _verdict(now: torch.Tensor, step: int) -> str:
    """What to see in this step."""
    if step in (2, 3):
        simple = " Here each looks at itself alone, to keep the addresses readable." if step == 3 else ""
        return f"Head 0 holds tokens {_tokens_in(now[0])}.{simple}"
    if step == 5:
        return f"Row 0 holds what the heads say of: token {_tokens_in(now[0])}."
    return "Numbers are token.feature; the colour is the head that a feature belongs to."


def _tokens_in(part: torch.Tensor) -> str:
    return ", ".join(map(str, addresses.tokens(part)))
