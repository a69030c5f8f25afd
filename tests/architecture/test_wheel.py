"""The wheel, built from the sdist, in a clean environment beside a foreign package called ``kernels``."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def run(*command, cwd=None):
    result = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=280, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """(folder, the environment's programs)."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", ROOT)
    foreign = folder / "foreign" / "kernels"
    foreign.mkdir(parents=True)
    (foreign / "__init__.py").write_text("mine = 'foreign'\n", "utf-8")
    (folder / "foreign" / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "kernels"\nversion = "1"\n[tool.hatch.build.targets.wheel]\npackages = ["kernels"]\n',
        "utf-8",
    )
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", folder / "foreign")
    venv.create(folder / "environment", with_pip=True)
    programs = folder / "environment" / "bin"
    wheels = sorted((folder / "dist").glob("*.whl"))
    assert [wheel.name.partition("-")[0] for wheel in wheels] == ["kernels", "metalbench"]
    run(programs / "pip", "install", "--quiet", *wheels)
    return folder, programs


def test_both_packages_are_whole(place):
    folder, programs = place
    assert run(programs / "python", "-c", "import kernels; print(kernels.mine)", cwd=folder).strip() == "foreign"
    assert run(programs / "bench", "--version", cwd=folder).startswith("metalbench ")
    assert run(programs / "metalbench", "--version", cwd=folder) == run(programs / "bench", "--version", cwd=folder)


def test_nothing_of_ours_lies_beside_the_package(place):
    _, programs = place
    site = Path(run(programs / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for name in ("harness", "workloads", "backends", "results", "tests"):
        assert not (site / name).exists()
    assert (site / "metalbench" / "backends" / "torch" / "backend.toml").exists()
    assert (site / "metalbench" / "results" / "templates" / "report.html").exists()
    assert (site / "metalbench" / "kernels" / "int4_matmul" / "int4_matmul.metal").exists()
    assert (site / "metalbench" / "py.typed").exists()
    assert (site / "metalbench" / "harness" / "locks" / "jax-metal.darwin.txt").exists()


def test_the_installed_command_lists_and_explains_what_is_missing(place):
    folder, programs = place
    assert "attention" in run(programs / "bench", "list", "workloads", cwd=folder)
    doctor = run(programs / "bench", "doctor", cwd=folder)
    assert "PyTorch is not installed" in doctor
    assert "bench env create torch-cpu" in doctor
    assert "tensorflow-metal==1.2.0" in run(programs / "bench", "env", "list", cwd=folder)


def test_a_run_without_any_framework_says_so_in_every_cell(place):
    folder, programs = place
    environment = {**os.environ, "BENCH_STORE": str(folder / "results.sqlite")}
    command = [programs / "bench", "run", "--workload", "fft", "--backend", "torch-cpu,mlx-cpu"]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert "unavailable" in result.stdout
    assert "bench env create mlx-cpu" in result.stdout
