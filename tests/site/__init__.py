"""The course as pages that need no kernel: `python -m tests.site`, or `make site`.

`record` runs inside the lessons and keeps every state of their views; `lesson` makes a page of what they printed;
`__main__` runs the lessons and writes the pages, the front page and the search.  How they look and move is said in
`lesson.html.j2`, `front.html.j2`, `search.html.j2`, `site.css` and `site.js`.
"""

VIEW = "application/x-many-heads-view+json"  # a recorded view among what a cell shows
