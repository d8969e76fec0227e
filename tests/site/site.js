// Views: all drawings of a view wait in tables at the end of the page; a control that moves shows another one.
for (const view of document.querySelectorAll(".view")) {
  const inputs = [...view.querySelectorAll(".controls input, .controls select")]
  const [drawing, status, table] = [".drawing", "[role=status]", ".numbers pre"].map((part) => view.querySelector(part))
  const number = (input) => (input.type == "checkbox" ? +input.checked : +input.value)
  const put = (input, value) => (input.type == "checkbox" ? (input.checked = value) : (input.value = value))
  let tables // read at the first move
  const read = () => (tables ??= JSON.parse(document.getElementById(view.dataset.states).textContent))
  const size = (i) => tables.options[i].length
  const state = (values) => tables.at[values.reduce((place, value, i) => place * size(i) + value, 0)]

  // These values; where they do not go together, the moved control goes further, or else another one gives way.
  function fitting(values, moved, step) {
    const tried = (i, way) => {
      for (let value = values[i]; value >= 0 && value < size(i); value += way)
        if (state(values.with(i, value)) >= 0) return values.with(i, value)
    }
    const others = [...values.keys()].filter((i) => i != moved).flatMap((i) => [[i, -1], [i, 1]])
    for (const [i, way] of [[moved, step], ...others]) if (tried(i, way)) return tried(i, way)
  }

  let shown = inputs.map(number)
  function show(moved) {
    read()
    const values = inputs.map(number)
    shown = fitting(values, moved, values[moved] < shown[moved] ? -1 : 1) ?? shown
    const parts = tables.states[state(shown)].flatMap((run) => tables.runs[run]).map((part) => tables.parts[part])
    const [picture, numbers] = parts.join("").split("</svg>")
    drawing.innerHTML = picture
    if (table) table.textContent = numbers
    status.textContent = drawing.firstElementChild.getAttribute("aria-label")
    inputs.forEach((input, i) => {
      put(input, shown[i])
      if (input.type == "range") {
        const label = tables.options[i][shown[i]]
        input.ariaValueText = input.parentElement.querySelector("output").textContent = label
      }
      const same = tables.options[i].every((_, value) => [-1, state(shown)].includes(state(shown.with(i, value))))
      input.parentElement.classList.toggle("idle", same) // moving it would change nothing
    })
  }

  inputs.forEach((input, i) => {
    input.addEventListener("input", () => show(i))
    for (const button of input.parentElement.querySelectorAll("button"))
      button.addEventListener("click", () => {
        const value = number(input) + +button.dataset.step
        if (value >= 0 && value < (input.options?.length ?? +input.max + 1)) put(input, value), show(i)
      })
  })
  view.querySelector(".controls").hidden = false
}

// What is wider than the page scrolls inside itself, and by the keyboard.
const wide = () => {
  for (const box of document.querySelectorAll("pre, math, .wide")) {
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0
    else box.removeAttribute("tabindex")
  }
}
wide()
addEventListener("resize", wide)
addEventListener("toggle", wide, true)

// The outline is open where it has room.
if (innerWidth < 1100) document.querySelector(".outline")?.removeAttribute("open")

// Search: sections that hold all words, those with the words in their heading first.
const query = new URLSearchParams(location.search).get("q") ?? ""
if (document.getElementById("found") && query.trim()) {
  const fold = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase()
  const words = fold(query).trim().split(/\s+/)
  const hits = PASSAGES.map(([page, anchor, lesson, heading, text]) => {
    const [head, body] = [fold(lesson + " " + heading), fold(text)]
    const score = words.reduce((sum, word) => sum + 9 * head.includes(word) + body.includes(word), 0)
    return { page, anchor, lesson, heading, text, at: body.indexOf(words[0]), score, all: words.every((w) => (head + " " + body).includes(w)) }
  }).filter((hit) => hit.all).sort((a, b) => b.score - a.score)
  document.querySelector("[name=q]").value = query
  const found = hits.length == 1 ? "One section holds" : `${hits.length} sections hold`
  document.getElementById("count").textContent = `${found} “${query}”.`
  for (const { page, anchor, lesson, heading, text, at } of hits) {
    const [item, link, words] = ["li", "a", "p"].map((name) => document.createElement(name))
    link.href = `${page}#${anchor}`
    link.textContent = lesson == heading ? lesson : `${lesson}: ${heading}`
    words.textContent = `… ${text.slice(Math.max(0, at - 60), Math.max(0, at) + 140)} …`
    item.append(link, words)
    document.getElementById("found").append(item)
  }
}
