"""The project's own files: they agree with each other and build."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import torch
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data" / "README.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PINS = [
    Requirement(line)
    for line in (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]
COLAB = {"torch": "2.11.0", "numpy": "2.1.3", "matplotlib": "3.10.0", "ipywidgets": "7.7.1"} | {
    "tqdm": "4.67.3",
    "safetensors": "0.4.3",  # the least that its transformers asks for, as is the next
    "tokenizers": "0.22.0",
}


def test_requirements_are_pinned():
    for pin in PINS:
        assert re.fullmatch(r"==[\w.]+", str(pin.specifier)), pin


def test_the_environment_is_the_requirements():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    python, _, pip = environment["dependencies"]
    assert python.partition("=")[2] in ("3.11", "3.12", "3.13")
    assert pip == {"pip": ["-r requirements.txt"]}


def test_the_ranges_admit_what_ci_tests_and_what_colab_preloads():
    pinned = {pin.name: str(pin.specifier).removeprefix("==") for pin in PINS}
    for needed in map(Requirement, PROJECT["dependencies"]):
        assert pinned[needed.name] in needed.specifier and COLAB[needed.name] in needed.specifier
        assert "==" not in str(needed.specifier) and "<" not in str(needed.specifier)
    assert "3.13" in Requirement("python" + PROJECT["requires-python"]).specifier


def test_the_package_builds_and_holds_every_room(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "notebooks", "tests", "__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", tmp_path]
    subprocess.run([*command, source], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("many_heads-*.whl")
    built = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("mha/")}
    assert built == {str(path.relative_to(ROOT).as_posix()) for path in (ROOT / "mha").rglob("*.py")}


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_the_workflow_runs_what_make_runs(path):
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    steps = [step["run"] for step in jobs["cpu"]["steps"] if "run" in step]
    assert "python -m pytest" in steps and "$(BIN)/python -m pytest\n" in (ROOT / "Makefile").read_text("utf-8")
    assert jobs["gpu"]["if"] == "vars.GPU_RUNNER != ''"


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


def test_imports_point_one_way():
    """Each room imports only from rooms before it; runtime is for all and imports none of ours."""
    rooms = [
        "runtime",
        "attention",
        "torch_bridge",
        "accounting",
        "transformer",
        "tasks",
        "training",
        "english",
        "heads",
        "pruning",
    ]
    rooms += ["figures", "architecture", "svg", "explore", "exercises"]
    for path in (ROOT / "mha").rglob("*.py"):
        parts = path.relative_to(ROOT / "mha").with_suffix("").parts
        if parts == ("__init__",):
            continue
        own = parts[0]
        for line in path.read_text("utf-8").splitlines():
            found = re.match(r"\s*(?:from mha\.(\w+)|from mha import (.+)|import mha\.(\w+))", line)
            for name in (found[1] or found[2] or found[3]).replace(",", " ").split() if found else ():
                assert rooms.index(name) < rooms.index(own) or (own == name in ("tasks", "exercises")), (
                    f"{path}: {line}"
                )
                assert own != "runtime" or name == "runtime"
