"""The lessons anywhere: as lone files, from an installed package, and what the set-up cell says where it must."""

import inspect
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
import torch

from mha import explore
from mha.exercises.compare import equal, plain
from mha.exercises.judge import exercises
from mha.tasks import dates
from tests import handouts, publish
from tests.outputs import NOTEBOOKS, run_nbval
from tests.places import bare, inside

ROOT = NOTEBOOKS.parent
LESSONS = sorted(NOTEBOOKS.glob("*.ipynb"))
SHIPPED = {path for folder in ("mha", "data") for path in (ROOT / folder).rglob("*") if path.suffix != ".pyc"}


def test_the_fence_around_these_tests_holds(tmp_path):
    code = "import urllib.request; urllib.request.urlopen('https://example.org', timeout=3)"
    done = subprocess.run([sys.executable, "-c", code], env=bare(tmp_path), capture_output=True, text=True)
    assert "this test has no network" in done.stderr
    done = subprocess.run([sys.executable, "-c", "import mha"], cwd=tmp_path, env=bare(tmp_path), capture_output=True)
    assert done.returncode != 0


def test_a_lone_file_runs_where_nothing_else_is(tmp_path):
    """One with data and one without, output by output; all of them run in `tests/browser/test_lessons.py`."""
    place = tmp_path / "très loin" / "de tout"
    handouts.main(place)
    assert [path.name for path in sorted(place.iterdir())] == [path.name for path in LESSONS]
    assert all(path.stat().st_size <= 1_500_000 for path in place.iterdir())
    kept = [path for path in LESSONS if path.name[:2] in ("01", "06")]
    for path in place.iterdir():
        if path.name not in [lesson.name for lesson in kept]:
            path.unlink()
    before = inside(place)
    place.chmod(0o555)
    done = run_nbval(place, environment=bare(tmp_path))
    place.chmod(0o755)
    assert done.returncode == 0, done.stdout[-3000:]
    cells = sum(cell.cell_type == "code" for path in kept for cell in nbformat.read(path, as_version=4).cells)
    assert f"{cells + len(kept)} passed" in done.stdout
    assert inside(place) == before  # nothing was written beside them


def test_a_lone_file_is_the_lesson_and_the_same_each_time(tmp_path):
    for path in LESSONS:
        notebook, lesson = handouts.handout(path), nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        assert [cell for cell in notebook.cells if cell.id != "everything-it-needs"] == lesson.cells
        assert handouts.handout(path) == notebook


def test_a_lone_file_that_was_cut_off_says_so(tmp_path):
    notebook = handouts.handout(LESSONS[0])
    (cell,) = (cell for cell in notebook.cells if cell.id == "everything-it-needs")
    middle = cell.source.index("PACKED") + 5000
    (tmp_path / "cell.py").write_text(cell.source[:middle] + cell.source[middle + 5 :], "utf-8")
    done = subprocess.run([sys.executable, tmp_path / "cell.py"], capture_output=True, text=True)
    assert done.returncode == 1 and "ValueError: This file was changed or cut off" in done.stderr


def test_the_installed_package_has_all_that_a_lesson_needs(tmp_path):
    """A source archive, a wheel from it, installed into a folder: a lesson runs from anywhere."""
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns(".*", "notebooks", "tests", "dist", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignored)
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=source, check=True, capture_output=True)
    (archive,) = tmp_path.glob("many_heads-*.tar.gz")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index"]
    command = [*pip, "wheel", *offline, "--no-build-isolation", "-w", tmp_path, archive]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("many_heads-*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("mha/")}
    files = {path.relative_to(ROOT).as_posix() for path in SHIPPED if path.is_file()}
    assert names == {name if name.startswith("mha/") else f"mha/{name}" for name in files}
    site, away = tmp_path / "site", tmp_path / "away"
    away.mkdir()
    subprocess.run(
        [*pip, "install", "--no-deps", "--no-index", "--target", site, wheel], check=True, capture_output=True
    )
    shutil.copy(NOTEBOOKS / "06_what_heads_learn.ipynb", away)
    (tmp_path / "fence").mkdir()
    fence = bare(tmp_path / "fence")
    done = run_nbval(away, environment=fence | {"PYTHONPATH": os.pathsep.join([fence["PYTHONPATH"], str(site)])})
    assert done.returncode == 0, done.stdout[-3000:]


def run_set_up(folder, environment=None, source=None):
    """The set-up cells as plain Python in this folder, without anything that would make mha importable."""
    source = source or set_up(LESSONS[0])
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | (environment or {})
    return subprocess.run([sys.executable, "-c", source], cwd=folder, env=clean, capture_output=True, text=True)


def set_up(path):
    """The two cells that a lesson begins with: the folded one, which finds the package, and two lines of set-up."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert cells[0].metadata == {"cellView": "form", "jupyter": {"source_hidden": True}}
    return f"{cells[0].source}\n{cells[1].source}"


def test_the_set_up_is_one_and_the_same():
    assert len({set_up(path) for path in LESSONS}) == 1


def test_the_set_up_cell_finds_the_checkout_above_it():
    done = run_set_up(NOTEBOOKS)
    assert done.returncode == 0 and done.stdout.rstrip().endswith(f"mha from {Path('..') / 'mha'}")
    assert len(done.stdout.splitlines()) == 1 and not done.stderr


def test_the_set_up_cell_takes_an_importable_package(tmp_path):
    done = run_set_up(tmp_path, {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0 and done.stdout.rstrip().endswith(str(ROOT / "mha"))


def test_an_importable_package_goes_before_a_checkout(tmp_path):
    shutil.copytree(ROOT / "mha", tmp_path / "mha")
    done = run_set_up(NOTEBOOKS, {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0 and done.stdout.rstrip().endswith(str(tmp_path / "mha"))


@pytest.mark.parametrize("repository", [None, "nobody/nowhere"])
def test_the_set_up_cell_says_what_to_do_where_nothing_is_found(tmp_path, repository):
    """No repository named, or one that cannot be reached."""
    source = publish.with_address(set_up(LESSONS[0]), repository)
    done = run_set_up(tmp_path, {"PIP_NO_INDEX": "1", "PIP_RETRIES": "0", "https_proxy": "http://127.0.0.1:9"}, source)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and last.startswith("ModuleNotFoundError: No module named 'mha' here: ")
    assert "make lab" in last and "lone file" in last


def test_from_a_repository_only_the_package_itself_is_installed(tmp_path):
    """The command that the folded cell runs, caught before it runs: nothing that is there already may change."""
    caught = "import subprocess\nsubprocess.run = lambda command, **more: print(*command[1:])\n"
    done = run_set_up(tmp_path, source=caught + publish.with_address(set_up(LESSONS[0]), "owner/name"))
    assert done.stdout.split() == (
        "-m pip install --quiet --no-deps https://github.com/owner/name/archive/HEAD.zip".split()
    )


def copied(folder):
    shutil.copytree(NOTEBOOKS, folder / "notebooks", ignore=shutil.ignore_patterns(".*"))
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def links(root):
    """Every address on the net in the first cells of the lessons and in README."""
    texts = [nbformat.read(path, as_version=4).cells[0].source for path in sorted((root / "notebooks").glob("*.ipynb"))]
    return [re.findall(r"https://[^)\s]+", text) for text in [*texts, (root / "README.md").read_text("utf-8")]]


def test_links_are_published_everywhere_or_nowhere(tmp_path):
    """What the repository says of itself agrees, and `make publish-links` writes it, again, and takes it back."""
    here = re.search(r'^Repository = "https://github.com/(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.M)
    root = copied(tmp_path)
    before = inside(root)
    publish.publish(root, here[1] if here else "")
    assert inside(root) == before
    publish.publish(root, "owner/name")
    first = inside(root)
    for found in links(root):
        colab, badge = (link for link in found if "colab.research.google.com" in link and "owner" in link), len(found)
        assert "/owner/name/blob/main/notebooks/" in next(colab) and badge >= 4
        assert any("mybinder.org/v2/gh/owner/name/main?labpath=notebooks%2F" in link for link in found)
    assert all('REPOSITORY = "owner/name"' in set_up(path) for path in (root / "notebooks").glob("*.ipynb"))
    assert 'Repository = "https://github.com/owner/name"' in (root / "pyproject.toml").read_text("utf-8")
    publish.publish(root, "owner/name")
    assert inside(root) == first
    publish.publish(root, "")
    publish.publish(root, here[1] if here else "")
    assert inside(root) == before
    with pytest.raises(SystemExit, match="wanted owner/name"):
        publish.publish(root, "a name")


VIEWS = {
    "heads": lambda: explore.heads(torch.full((2, 3, 3), 1 / 3), list("abc")),
    "softmax_scale": explore.softmax_scale,
    "mask": explore.mask,
    "two_peaks": explore.two_peaks,
    "reshape": explore.reshape,
    "parameter_budget": explore.parameter_budget,
    "conversation_cache": explore.conversation_cache,
    "switchboard": lambda: explore.switchboard(dates.model()),
    "translate": lambda: explore.translate(dates.model()),
}


def test_views_are_made_of_widgets_that_every_viewer_brings_along():
    """Only those of ipywidgets itself: VS Code, Colab and JupyterLab have them without asking the network."""
    assert set(VIEWS) == {name for name, thing in vars(explore).items() if _is_a_view(name, thing)}
    for make in VIEWS.values():
        boxes = [make().box]
        while boxes:
            widget = boxes.pop()
            boxes += getattr(widget, "children", ())
            assert widget._model_module in ("@jupyter-widgets/base", "@jupyter-widgets/controls")


def _is_a_view(name, thing):
    ours = inspect.isfunction(thing) and thing.__module__.startswith(("mha.explore", "mha.views"))
    return ours and not name.startswith("_")


@pytest.mark.parametrize("exercise", exercises().values(), ids=list(exercises()))
def test_a_solution_builds_its_tensors_on_its_inputs_device(exercise):
    """With another default device, a tensor made without `device=` is elsewhere, and meets the inputs in an error."""
    if exercise.id == "7.5":
        pytest.skip("its stand-in for a model makes tensors of its own")
    with_tensors = (case for case in exercise.inputs().values() if any(map(torch.is_tensor, case)))
    for arguments in with_tensors:
        wanted = exercise.reference(*arguments)
        with torch.device("meta"):
            found = exercise.reference(*arguments)
        assert equal(plain(exercise.read(found)), plain(exercise.read(wanted)), exercise.tolerance)
