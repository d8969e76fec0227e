"""Where the course runs: device, seed, files, the set-up line, the race."""

import logging
import os

import pytest
import torch

from mha import runtime


def test_the_device_is_the_cpu_unless_asked(monkeypatch):
    monkeypatch.delenv("MHA_DEVICE", raising=False)
    assert runtime.device() == torch.device("cpu")
    monkeypatch.setenv("MHA_DEVICE", "")
    assert runtime.device() == torch.device("cpu")
    monkeypatch.setenv("MHA_DEVICE", "meta")
    assert runtime.device() == torch.device("meta")


@pytest.mark.parametrize("name", ["cuda", "nonsense", "cuda:99"])
def test_a_device_that_is_not_there_is_refused_in_one_sentence(monkeypatch, name):
    if name == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    monkeypatch.setenv("MHA_DEVICE", name)
    with pytest.raises(RuntimeError) as refusal:
        runtime.device()
    assert str(refusal.value).startswith(f"MHA_DEVICE={name} cannot be used here") and "\n" not in str(refusal.value)
    assert str(refusal.value).endswith("unset it to run on the CPU")


def test_the_same_seed_draws_the_same():
    runtime.seed(3)
    first = torch.randn(4)
    runtime.seed(3)
    assert torch.equal(torch.randn(4), first)
    runtime.seed(4)
    assert not torch.equal(torch.randn(4), first)


def test_a_file_of_the_course_is_found_from_anywhere_and_a_missing_one_is_named(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert runtime.data_path("README.md").read_text("utf-8").startswith("# Data")
    with pytest.raises(FileNotFoundError, match=r"nothing\.json is not in .*data"):
        runtime.data_path("nothing.json")
    monkeypatch.setattr(runtime, "PACKAGE", tmp_path / "mha")  # copied alone, without data
    with pytest.raises(FileNotFoundError) as refusal:
        runtime.data_path("README.md")
    assert f"README.md is not in the course's data folder, {tmp_path / 'mha' / 'data'}:" in str(refusal.value)


def test_set_up_prints_one_line_with_versions_device_and_place(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("MHA_DEVICE", raising=False)
    for folder, place in (
        (runtime.PACKAGE.parent / "notebooks", os.path.join("..", "mha")),
        (tmp_path, runtime.PACKAGE),
    ):
        monkeypatch.chdir(folder)
        assert runtime.setup() == torch.device("cpu")
        drawn = torch.rand(1)
        runtime.seed()
        assert torch.equal(torch.rand(1), drawn)
        (line,) = capsys.readouterr().out.splitlines()
        assert torch.__version__ in line and "device cpu" in line and line.endswith(f"mha from {place}")


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("projector", [True, False])
def test_set_up_for_a_projector_or_the_dark_holds_until_the_next_set_up(projector, dark, capsys):
    runtime.setup(projector=projector, dark=dark)
    assert (runtime.look.scale, runtime.look.dark) == (runtime.PROJECTOR if projector else 1.0, dark)
    runtime.setup()
    assert (runtime.look.scale, runtime.look.dark) == (1.0, False)
    capsys.readouterr()


def test_a_library_is_quiet_inside_and_tells_its_news_again_afterwards(caplog):
    log = logging.getLogger("a library")
    log.setLevel(logging.INFO)
    with runtime.quiet("a library"):
        log.warning("a file of mine")
        log.error("something is wrong")
    log.info("news")
    assert caplog.messages == ["something is wrong", "news"]


def test_a_race_takes_turns_and_its_medians_leave_the_first_round_out(monkeypatch):
    calls, clock = [], [0]
    monkeypatch.setattr(runtime.time, "perf_counter", lambda: clock[0])

    def runner(name, seconds):
        def run():
            calls.append(name)
            clock[0] += seconds.pop(0)

        return run

    times = runtime.race({"a": runner("a", [9, 1, 2, 3]), "b": runner("b", [9, 3, 5, 4])}, repeats=3)
    assert [sorted(calls[turn : turn + 2]) for turn in range(0, 8, 2)] == [["a", "b"]] * 4
    assert calls != ["a", "b"] * 4  # neither always comes after the other
    assert times == {"a": 2000, "b": 4000}


def test_what_is_kept_for_the_backward_pass_counts_once_and_without_parameters():
    x = torch.randn(4, 10, requires_grad=True)
    assert runtime.kept_bytes(torch.exp, x) == 4 * 10 * 4  # its result
    assert runtime.kept_bytes(torch.mul, x, x) == 4 * 10 * 4  # both sides are one
    assert runtime.kept_bytes(torch.nn.Linear(10, 3), x) == 4 * 10 * 4  # its input, not its weight
    assert runtime.kept_bytes(torch.exp, x.detach()) == 0
