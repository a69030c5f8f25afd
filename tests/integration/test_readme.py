"""The README's examples are complete: they run as they are printed."""

import json
import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent.parent / "README.md").read_text("utf-8")
EXAMPLES = {match[1]: match[2] for match in re.finditer(r"```python\n# (\w+\.py)\n(.*?)```", README, re.DOTALL)}
KERNEL = {match[1]: match[2] for match in re.finditer(r"```(?:cpp|python)\n(?://|#) (\w+/\w+\.\w+)\n(.*?)```", README, re.DOTALL)}


def cells(bench, *arguments):
    result = bench("run", *arguments, "--launches", "2", "--budget", "0.05", "--json", "out.json")
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads((bench.folder / "out.json").read_text("utf-8"))["cells"]


@pytest.fixture
def project(bench):
    for name, text in EXAMPLES.items():
        (bench.folder / name).write_text(text, "utf-8")
    (bench.folder / "bench.toml").write_text(f"plugins = {list(EXAMPLES)}", "utf-8")
    return bench


def test_a_workload_in_one_file(project):
    found = cells(project, "--workload", "running_sum", "--backend", "torch-cpu,mlx-cpu,jax-cpu")
    status = {(cell["backend"], cell["status"]) for cell in found}
    assert status == {("torch-cpu", "ok"), ("mlx-cpu", "ok"), ("jax-cpu", "unsupported")}
    assert re.search(r"^running_sum +Running sums along rows\.$", project("list", "workloads").stdout, re.MULTILINE)


def test_a_backend_in_one_file(project):
    found = cells(project, "--workload", "fft", "--backend", "numpy-cpu")
    assert {cell["status"] for cell in found} == {"ok"}
    assert len(found) == 3


def test_a_kernel_in_a_folder(bench):
    (folder,) = {name.partition("/")[0] for name in KERNEL}
    (bench.folder / folder).mkdir()
    for name, text in KERNEL.items():
        (bench.folder / name).write_text(text, "utf-8")
    (line,) = re.findall(rf"^bench (run --kernel {folder}.*)$", README, re.MULTILINE)
    found = cells(bench, *line.split()[1:], "--suite", "documents", "--variant", "builtin")
    assert {cell["variant"]: cell["status"] for cell in found} == {"builtin": "ok", f"kernel:{folder}": "ok"}


def test_the_settings_shown_are_settings():
    from metalbench.harness.config import Config

    for key in re.findall(r"^(\w+) = ", README.partition("```toml")[2].partition("```")[0], re.MULTILINE):
        assert key in Config.__struct_fields__
