"""The project's own files: they agree with each other and build."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import tomllib
import torch
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data" / "README.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def listed(name):
    """The requirements of a list, by name."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    found = map(Requirement, (line for line in lines if line and line[0] not in "#-"))
    return {one.name: one for one in found}


def version(requirement):
    return re.fullmatch(r"==([\w.]+)", str(requirement.specifier))[1]


def test_requirements_are_pinned():
    for name in ("requirements.txt", "tests/requirements.txt", "tests/hub.txt"):
        assert all(version(pin) for pin in listed(name).values())


def test_the_environment_is_the_requirements():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    python, _, pip = environment["dependencies"]
    assert python.partition("=")[2] in ("3.11", "3.12", "3.13")
    assert pip == {"pip": ["-r requirements.txt"]}


def test_the_promised_ranges_are_those_that_are_tried():
    """Each range begins at the list of the oldest and admits Colab's list, the pins, and whatever comes."""
    oldest, colab, pinned = (listed(f"{name}.txt") for name in ("tests/oldest", "tests/colab", "requirements"))
    newest = listed("tests/newest.txt")
    for needed in map(Requirement, PROJECT["dependencies"]):
        (promise,) = needed.specifier
        assert promise.operator == ">="
        if needed.name != "ipython":  # comes with ipykernel; the least there is is Colab's
            assert Version(version(oldest[needed.name])) == Version(promise.version), needed
            assert version(pinned[needed.name]) in needed.specifier and not newest[needed.name].specifier
        assert version(colab[needed.name]) in needed.specifier
    assert PROJECT["requires-python"] == ">=3.10" and "Python 3.10" in (ROOT / "tests/oldest.txt").read_text("utf-8")


def test_the_workflow_runs_what_make_runs():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))["jobs"]
    steps = [step["run"] for step in jobs["cpu"]["steps"] if "run" in step]
    assert "python -m pytest" in steps and "$(BIN)/python -m pytest\n" in (ROOT / "Makefile").read_text("utf-8")
    assert jobs["gpu"]["if"] == "vars.GPU_RUNNER != '' && github.event_name != 'pull_request'"
    tried = {job["list"] for job in jobs["versions"]["strategy"]["matrix"]["include"]}
    assert tried == {path.stem for path in (ROOT / "tests").glob("*.txt")} - {"requirements", "hub"}


@pytest.mark.skipif(os.name == "nt" or not shutil.which("make"), reason="only where make is")
@pytest.mark.skipif(torch.cuda.is_available(), reason="only where no GPU is")
def test_without_a_gpu_the_gpu_checks_do_not_pass():
    command = ["make", "test-gpu", f"BIN={Path(sys.executable).parent}", "READY="]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert done.returncode != 0 and "NOT CHECKED" in done.stdout


def test_data_is_what_its_readme_says():
    rows = re.findall(r"^\| `([^`]+)` \|.*\| ([\d,]+) bytes \| `([0-9a-f]{16})` \|$", DATA.read_text("utf-8"), re.M)
    files = {path.relative_to(DATA.parent).as_posix(): path for path in DATA.parent.rglob("*") if path.is_file()}
    stored = {name: path for name, path in files.items() if path.suffix not in (".py", ".md", ".pyc")}
    assert {name for name, _, _ in rows} == set(stored)
    for name, size, checksum in rows:
        content = stored[name].read_bytes()
        assert len(content) == int(size.replace(",", "")) and hashlib.sha256(content).hexdigest()[:16] == checksum, name


def test_every_folder_of_the_package_ships():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "mha").rglob("*.py")}
    assert {name.replace(".", "/") for name in listed if not name.startswith("mha.data")} == folders


def test_a_new_lesson_is_missed_wherever_it_belongs():
    """Its claims are asked for in test_notebooks.py, its data by `test_data_is_what_its_readme_says`."""
    lessons = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    readme = (ROOT / "README.md").read_text("utf-8")
    for name in lessons:
        assert f"](notebooks/{name})" in readme, f"the table of lessons in README.md lacks {name}"
        folder = ROOT / "mha" / "exercises" / f"lesson_{name[:2]}"
        assert folder.is_dir(), f"{name} has no exercises: {folder} is not there"
    for name, after in pairwise(lessons):
        last = json.loads((ROOT / "notebooks" / name).read_text("utf-8"))["cells"][-1]["source"]
        assert f"]({after})" in "".join(last), f"the last cell of {name} does not lead to {after}"


def test_all_stored_data_can_be_made_again():
    made = (ROOT / "Makefile").read_text("utf-8")
    for maker in (ROOT / "data").glob("*/make.py"):
        assert f"-m data.{maker.parent.name}.make\n" in made, f"no line of the Makefile runs {maker}"
    folders = {path.parent for path in (ROOT / "data").rglob("*.safetensors")}
    assert all((folder / "make.py").exists() for folder in folders if folder.name != "model")


def test_in_ci_what_was_not_checked_fails(tmp_path):
    """A skip that says NOT CHECKED is one for people; where everything should be there it is a failure."""
    skipped = "import pytest\n\n\n@pytest.mark.skip(reason='NOT CHECKED: {}')\ndef test_it():\n    pass\n"
    (tmp_path / "test_it.py").write_text(skipped.format("nobody is here"), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "tests.conftest", tmp_path]
    for ci, wanted in (("", 0), ("true", 1)):
        done = subprocess.run(command, cwd=ROOT, env=os.environ | {"CI": ci}, capture_output=True, text=True)
        assert done.returncode == wanted and ("nobody is here" in done.stdout) == bool(ci), done.stdout
