"""`make publish-links REPOSITORY=owner/name`: say in all places where the course is published.

Writes the repository's address into pyproject.toml, and into README and each lesson "Open in Colab" and Binder
badges and the address that the folded cell installs from.  With no name they are taken out again.
Run as `python -m tests.publish owner/name [branch]`.
"""

import re
import sys

import nbformat

from tests.outputs import NOTEBOOKS

ROOT = NOTEBOOKS.parent
BADGES = re.compile(r"^\[!\[Open in Colab\].*\n\n", re.M)
COLAB = "https://colab.research.google.com"
BINDER = "https://mybinder.org"


def badges(repository, lesson, branch="main"):
    """One line of Markdown: two pictures that are links, each with its words."""
    colab = f"{COLAB}/github/{repository}/blob/{branch}/notebooks/{lesson}"
    binder = f"{BINDER}/v2/gh/{repository}/{branch}?labpath=notebooks%2F{lesson}"
    return (
        f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({colab}) "
        f"[![Open in Binder]({BINDER}/badge_logo.svg)]({binder})"
    )


def with_badges(text, line):
    """The text with this line of badges below its title, and no other."""
    title, _, rest = BADGES.sub("", text).partition("\n\n")
    return "\n\n".join([title, line, rest] if line else [title, rest])


def with_address(source, repository):
    """The folded first cell with the repository's name in it."""
    value = f'"{repository}"' if repository else "None"
    return re.sub(r"^REPOSITORY = \S+", lambda _: f"REPOSITORY = {value}", source, flags=re.M)


def project_file(text, repository):
    """pyproject.toml with the repository's address."""
    text = re.sub(r"\n\[project\.urls\]\nRepository = .*\n", "", text)
    urls = f'\n[project.urls]\nRepository = "https://github.com/{repository}"\n' if repository else ""
    return text.replace("\n[tool.setuptools]\n", f"{urls}\n[tool.setuptools]\n", 1)


def publish(root, repository, branch="main"):
    """Write the links into all files below this root."""
    if repository and not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise SystemExit(f"REPOSITORY={repository}: wanted owner/name, as in the repository's address")
    lessons = sorted((root / "notebooks").glob("*.ipynb"))
    for path in lessons:
        notebook = nbformat.read(path, as_version=4)
        line = badges(repository, path.name, branch) if repository else ""
        notebook.cells[0].source = with_badges(notebook.cells[0].source, line)
        folded = next(cell for cell in notebook.cells if cell.cell_type == "code")
        folded.source = with_address(folded.source, repository)
        nbformat.write(notebook, path)
    line = badges(repository, lessons[0].name, branch) if repository else ""
    for name, change in (
        ("README.md", lambda text: with_badges(text, line)),
        ("pyproject.toml", lambda text: project_file(text, repository)),
    ):
        path = root / name
        path.write_text(change(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    publish(ROOT, *(sys.argv[1:] or [""]))
