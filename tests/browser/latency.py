"""`make bench`, second half: from a key press to changed pixels in the browser, ours beside the common way.

The common way is `interact` with a new matplotlib figure for each move.  40 presses each, in turns; the clock
runs in the page, from the key press to the frame after the one in which the new content stands.
"""

import statistics
import tempfile
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from tests.browser.lab import CHROMIUM, Lesson, browser, server
from tests.outputs import METADATA

OURS = """
import torch
from mha import explore
weights = torch.randn(12, 16, 16, generator=torch.Generator().manual_seed(0)).mul(2).softmax(dim=-1)
explore.heads(weights, [f"t{i}" for i in range(16)])
"""
COMMON = """
import matplotlib.pyplot as plt
from ipywidgets import interact

@interact(head=(0, 11))
def show(head=0):
    figure, axes = plt.subplots(3, 4, figsize=(9, 6))
    for number, ax in enumerate(axes.flat):
        ax.imshow(weights[number], cmap="Blues", vmin=0, vmax=1)
        ax.set_title(f"> {number}" if number == head else number)
    plt.show()
"""
CLOCK = """
cell => new Promise((done, failed) => {
    const root = document.querySelectorAll('.jp-Cell')[cell]
    const drawn = () => cell == 0 ? root.querySelector('svg[role=img]')?.outerHTML
                                  : root.querySelector('.widget-output img, .jupyter-widgets img')?.src
    const before = drawn()
    document.addEventListener('keydown', () => {
        const start = performance.now()
        const look = () => {
            const now = drawn()
            if (now && now != before) requestAnimationFrame(() => done(performance.now() - start))
            else if (performance.now() - start > 5000) failed('nothing changed')
            else requestAnimationFrame(look)
        }
        requestAnimationFrame(look)
    }, { capture: true, once: true })
})
"""


def press(lesson, cell, key):
    """Milliseconds from this key press, on the view's slider, to changed pixels."""
    handle = lesson.cell(cell).locator(".noUi-handle:visible").first
    handle.focus()
    lesson.page.evaluate(f"window.clock = ({CLOCK})({cell}); null")
    lesson.page.keyboard.press(key)
    taken = lesson.page.evaluate("window.clock")
    lesson.page.wait_for_timeout(150)  # let the kernel come to rest before the next press
    return taken


def main():
    if CHROMIUM is None:
        print("NOT MEASURED: no Chromium here, so no key press was timed.")
        return
    with tempfile.TemporaryDirectory() as name:
        cells = [new_code_cell(source.strip()) for source in (OURS, COMMON)]
        nbformat.write(new_notebook(cells=cells, metadata=METADATA), Path(name) / "race.ipynb")
        with server(Path(name)) as address, browser() as chromium:
            lesson = Lesson(chromium, address, "race.ipynb")
            lesson.run_all()
            times = {0: [], 1: []}
            for move in range(42):
                for cell, taken in times.items():
                    taken.append(press(lesson, cell, "ArrowRight" if move % 2 == 0 else "ArrowLeft"))
    print("\nkey press to changed pixels, 12 heads × 16 tokens, 40 presses")
    medians = []
    for cell, way in ((0, "ours, SVG in HTML"), (1, "interact, a new figure")):
        taken = times[cell][2:]  # the first two warm up
        medians.append(statistics.median(taken))
        print(f"{way:24} median {medians[-1]:5.0f} ms, 95th percentile {statistics.quantiles(taken, n=20)[-1]:5.0f} ms")
    print(f"ours is {medians[1] / medians[0]:.1f} times as quick")


if __name__ == "__main__":
    main()
