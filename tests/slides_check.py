"""Every slide of a deck in Chromium, at 1280 by 720 and without a network: does it fit, can it be read?"""

from tests.browser.lab import CHROMIUM, WITHOUT, browser, offline_page

SMALLEST = {"text": 24, "code": 18}  # pixels of type
MEASURE = """() => {
  const slide = Reveal.getCurrentSlide(), edge = slide.getBoundingClientRect()
  const found = { over: [], small: [], figures: [] }
  const inside = box => box.left >= edge.left + 20 && box.right <= edge.right - 20 && box.top >= edge.top + 20
                        && box.bottom <= edge.bottom - 20
  const parts = [...slide.querySelectorAll('*')].filter(part => !part.closest('aside') && !part.closest('math *'))
  for (const part of parts)
    if (!inside(part.getBoundingClientRect()) || part.scrollWidth > part.clientWidth + 1 && part.clientWidth)
      found.over.push(part.tagName + ' ' + part.textContent.slice(0, 40))
  const words = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT)
  while (words.nextNode()) {
    const place = words.currentNode.parentElement
    if (!words.currentNode.data.trim() || place.closest('aside, math')) continue
    const least = SMALLEST[place.closest('pre, code') ? 'code' : 'text']
    const size = parseFloat(getComputedStyle(place).fontSize)
    if (size < least) found.small.push(size + ' ' + words.currentNode.data.slice(0, 40))
  }
  for (const picture of slide.querySelectorAll('img')) {
    const box = picture.getBoundingClientRect(), share = picture.naturalWidth / picture.naturalHeight
    const wide = Math.min(box.width, box.height * share)
    found.figures.push({ wide, high: wide / share, scale: wide / picture.naturalWidth, alt: picture.alt })
  }
  return found }"""


def visit(page, path):
    """Each slide of the deck at `path`, its fragments shown: (its number, its cell, what was measured)."""
    page.goto(path.resolve().as_uri())
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    measure = MEASURE.replace("SMALLEST", str(SMALLEST))
    number = 0
    while True:
        number += 1
        while page.evaluate("Reveal.availableFragments().next && Reveal.nextFragment()"):
            pass
        yield number, page.evaluate("Reveal.getCurrentSlide().dataset.cell"), page.evaluate(measure)
        if page.evaluate("Reveal.isLastSlide()"):
            return
        page.evaluate("Reveal.next()")


def complaints(paths):
    """Exit status: 1 if a slide of these decks runs over, is too small or wants something from elsewhere."""
    if CHROMIUM is None:
        print(f"{WITHOUT}, so no slide was looked at")
        return 0
    bad = 0
    with browser() as chromium:
        for path in paths:
            asked = []
            page = offline_page(chromium, asked, 1280, 720)
            slides = list(visit(page, path))
            for number, cell, found in slides:
                for kind in ("over", "small"):
                    if found[kind]:
                        bad += 1
                        print(f"{path.name} slide {number} (cell {cell}): {kind}: {found[kind][:3]}")
            bad += len(asked)
            scales = [picture["scale"] for _, _, found in slides for picture in found["figures"]]
            print(
                f"{path.name}: {len(slides)} slides looked at, figures at {min(scales):.2f} to {max(scales):.2f}",
                *asked,
            )
            page.close()
    return int(bad > 0)
