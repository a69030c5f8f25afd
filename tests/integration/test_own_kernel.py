"""A kernel of the user's own, in a folder, is measured beside the built-in variants and checked like them."""

import json
import os
import shutil
import textwrap
from pathlib import Path

import pytest
from support.command import only_sentence

INT4 = """
    from .weights import unpacked
    import {array} as np

    def by_weights(dtype, codes, scales, offsets):
        weights = {convert}(unpacked(codes, scales, offsets))
        return lambda x: x @ weights.T
"""
WEIGHTS = """
    import numpy as np

    def unpacked(codes, scales, offsets):
        group = codes.shape[1] // scales.shape[1]
        return codes.astype(np.float32) * scales.repeat(group, 1) + offsets.repeat(group, 1)
"""
TORCH, MLX = INT4.format(array="torch", convert="np.from_numpy"), INT4.format(array="mlx.core", convert="np.array")
RIGHT = {"torch_cpu.py": TORCH, "mlx_cpu.py": MLX, "weights.py": WEIGHTS}
SMALL = ("--suite", "quick", "--case", "m=1", "--budget", "0.02", "--launches", "1", "--store", "results.sqlite")


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(textwrap.dedent(text), "utf-8")


def cells(bench, *arguments, status=0):
    result = bench("run", *arguments, "--json", "out.json")
    assert result.returncode == status, result.stdout + result.stderr
    return json.loads((bench.folder / "out.json").read_text("utf-8"))["cells"]


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """Kernels that go well or wrong in every way, against each other in one run."""
    from support.command import Bench

    bench = Bench(tmp_path_factory.mktemp("kernels"))
    kernels = {
        "right": RIGHT,
        "wrong": RIGHT | {"weights.py": WEIGHTS.replace("+ offsets", "- offsets")},
        "crash": {"torch_cpu.py": "import ctypes\ndef by_weights(*arguments):\n    ctypes.string_at(0)\n"},
        "raise": {"torch_cpu.py": "import nosuchthing\ndef by_weights(*arguments): ...\n"},
        "returns-none": {"torch_cpu.py": "def by_weights(*arguments):\n    return lambda x: None\n"},
        "shared.start": {"torch_cpu.py": "from . import by_weights\n", "__init__.py": "raise ImportError('not with this release')\n"},
    }
    for name, files in kernels.items():
        write(bench.folder / "mine" / name, files)
    given = [part for name in kernels for part in ("--kernel", f"mine/{name}")]
    return bench, cells(bench, *given, "--variant", "kernel:right", "--backend", "torch-cpu,mlx-cpu", *SMALL, status=1)


@pytest.mark.parametrize(
    ("backend", "kernel", "status", "reason"),
    [
        ("torch-cpu", "right", "ok", ""),
        ("mlx-cpu", "right", "ok", ""),
        ("torch-cpu", "wrong", "wrong", "out is off by"),
        ("mlx-cpu", "wrong", "wrong", "out is off by"),
        ("torch-cpu", "crash", "crashed", "SIGSEGV"),
        ("mlx-cpu", "crash", "unsupported", "crash has no mlx_cpu.py"),
        ("torch-cpu", "raise", "failed", "No module named 'nosuchthing'"),
        ("torch-cpu", "returns-none", "failed", "NoneType"),
        ("torch-cpu", "shared.start", "failed", "not with this release"),
    ],
)
def test_each_kernel_is_a_variant_with_its_own_status(faults, backend, kernel, status, reason):
    (cell,) = [cell for cell in faults[1] if (cell["backend"], cell["variant"]) == (backend, f"kernel:{kernel}")]
    assert (cell["workload"], cell["status"]) == ("int4_matmul", status), cell["reason"]
    assert reason in cell["reason"]


def test_what_is_shared_does_not_tell_where_the_kernel_was(faults):
    bench, _ = faults
    assert bench("share", "-o", "mine.jsonl", "--store", "results.sqlite").returncode == 0
    shared = (bench.folder / "mine.jsonl").read_text("utf-8")
    assert "kernel:right" in shared
    assert str(bench.folder) not in shared
    assert os.environ["XDG_CACHE_HOME"] not in shared


def test_it_is_not_cut_out_for_a_bug_report(faults):
    sentence = only_sentence(
        faults[0]("repro", "--variant", "kernel:right", "--backend", "torch-cpu", "--store", "results.sqlite", "-o", "a.py")
    )
    assert "give the folder of kernel:right" in sentence


def test_every_variant_of_its_workload_is_measured_and_no_other_workload(bench):
    write(bench.folder / "mine", RIGHT)
    arguments = ("run", "--kernel", "mine", "--backend", "torch-cpu", "--dry-run")
    for suite in ([], ["--suite", "quick"]):
        lines = [line.split(" · ") for line in bench(*arguments, *suite).stdout.splitlines() if " · " in line]
        assert {line[0].split()[0] for line in lines} == {"int4_matmul"}
        assert {line[2] for line in lines} == {"native", "dequantize", "dense", "kernel", "kernel:mine"}
    chosen = bench(*arguments, "--workload", "fft,int4_matmul", "--variant", "dense,naive").stdout
    assert {line.split(" · ")[2] for line in chosen.splitlines() if " · " in line} == {"dense", "naive", "kernel:mine"}


def test_an_edited_kernel_is_told_apart_and_stays_in_its_series(bench):
    write(bench.folder / "mine", RIGHT)
    arguments = ("--kernel", "mine", "--variant", "kernel:mine", "--backend", "torch-cpu", *SMALL)
    (before,) = cells(bench, *arguments, "--label", "before")
    (same,) = cells(bench, *arguments)
    write(bench.folder / "mine", {"weights.py": WEIGHTS + "\n    # faster, one hopes\n"})
    (after,) = cells(bench, *arguments, "--label", "after")
    assert before["facts"]["kernel"] == same["facts"]["kernel"] != after["facts"]["kernel"]
    compared = bench("compare", "before", "after", "--store", "results.sqlite").stdout
    assert f"kernel {before['facts']['kernel']} → {after['facts']['kernel']}" in " ".join(compared.split())


#: Interrupts the run on first being asked for, and waits for its end.
INTERRUPTING = """
    import os, signal, threading
    from pathlib import Path

    flag = Path({flag!r})
    if not flag.exists():
        flag.touch()
        os.kill(os.getppid(), signal.SIGINT)
        threading.Event().wait()
"""


def test_a_run_that_is_taken_up_again_measures_the_kernel_that_it_began_with(bench):
    interrupting = INTERRUPTING.format(flag=str(bench.folder / "flag"))
    write(bench.folder / "mine", RIGHT | {"weights.py": interrupting + WEIGHTS})
    arguments = ("--kernel", "mine", "--variant", "kernel:mine", "--backend", "torch-cpu", *SMALL)
    assert bench("run", *arguments).returncode == 130
    shutil.rmtree(bench.folder / "mine")
    (cell,) = cells(bench, "--resume", "--store", "results.sqlite")
    assert cell["status"] == "ok", cell["reason"]

    (bench.folder / "flag").unlink()
    write(bench.folder / "mine", RIGHT | {"weights.py": interrupting + WEIGHTS + "\n    # another\n"})
    assert bench("run", *arguments).returncode == 130
    shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"]) / "metalbench" / "kernels")
    assert "copy of the kernel mine" in only_sentence(bench("run", "--resume", "--store", "results.sqlite"))


SOFTSHRINK = "def softshrink(x, threshold): ...\n"
BY_WEIGHTS = "def by_weights(dtype, codes, scales, offsets): ...\n"
MISTAKES = {
    "missing": ({}, ["--kernel", "nowhere"], ["nowhere does not exist"]),
    "a file": ({"torch_cpu.py": SOFTSHRINK}, ["--kernel", "mine/torch_cpu.py"], ["is a file, not a folder"]),
    "no module": ({"torch_mps.py": SOFTSHRINK}, ["--kernel", "mine"], ["has no module", "torch_cpu.py"]),
    "no function": (
        {"torch_cpu.py": "def shrink(x): ...\n"},
        ["--kernel", "mine"],
        ["torch_cpu.py defines none of", "softshrink", "by_weights"],
    ),
    "two functions": ({"torch_cpu.py": SOFTSHRINK + BY_WEIGHTS}, ["--kernel", "mine"], ["defines more than one of"]),
    "two kernels": (
        {"torch_cpu.py": SOFTSHRINK, "mlx_metal.py": BY_WEIGHTS},
        ["--kernel", "mine"],
        ["int4_matmul", "softshrink", "its own folder"],
    ),
    "a slip": ({"torch_cpu.py": f"{SOFTSHRINK}def (\n"}, ["--kernel", "mine"], ["torch_cpu.py is not Python (line 2"]),
    "not text": ({"torch_cpu.py": "\0"}, ["--kernel", "mine"], ["torch_cpu.py"]),
    "one name twice": (
        {"torch_cpu.py": SOFTSHRINK},
        ["--kernel", "mine", "--kernel", "other/mine"],
        ["Two kernel folders are called mine"],
    ),
    "a comma": ({"torch_cpu.py": SOFTSHRINK}, ["--kernel", "a,b"], ["a,b", "without a comma"]),
    "another workload": ({"torch_cpu.py": SOFTSHRINK}, ["--kernel", "mine", "--workload", "fft"], ["custom_op", "--workload leaves out"]),
    "no case": ({"torch_cpu.py": SOFTSHRINK}, ["--kernel", "mine", "--suite", "quick"], ["no case of custom_op", "--suite standard"]),
    "variant alone": ({}, ["--variant", "kernel:mine"], ["kernel:mine", "give --kernel"]),
    "resumed": ({"torch_cpu.py": SOFTSHRINK}, ["--kernel", "mine", "--resume"], ["as it was planned"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_one_sentence(bench, mistake):
    files, arguments, words = MISTAKES[mistake]
    for folder in ("mine", "other/mine", "a,b"):
        write(bench.folder / folder, files)
    sentence = only_sentence(bench("run", *arguments))
    for word in words:
        assert word in sentence
