"""What the house promises about imports, links and start-up."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("backends", "harness", "kernels", "results", "workloads")
FRAMEWORKS = {"torch", "jax", "jaxlib", "mlx", "tensorflow", "keras"}
SOURCES = [file for folder in (*FOLDERS, "src", "tests") for file in (ROOT / folder).rglob("*.py")]


def imported(source):
    """(module, line) of every import statement."""
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.lineno


def test_the_five_links():
    links = {path.name: path.readlink().as_posix() for path in (ROOT / "src" / "metalbench").iterdir() if path.is_symlink()}
    assert links == {folder: f"../../{folder}" for folder in FOLDERS}
    for folder in FOLDERS:
        assert (ROOT / folder).is_dir()
        assert not (ROOT / folder / "__init__.py").exists(), "nothing started at the root may shadow another package of this name"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_five_folders_are_never_imported_bare(source):
    for module, line in imported(source):
        assert module.split(".")[0] not in FOLDERS, f"{source}:{line} imports {module}"


def loaded(*arguments):
    """The modules that a command of ours has imported when it ends."""
    program = (
        "import atexit, json, sys\n"
        "from metalbench.harness.cli.main import main\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        f"sys.argv[1:] = {list(arguments)!r}\n"
        "main()\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return {name.split(".")[0] for name in json.loads(result.stderr.splitlines()[-1])}


@pytest.mark.parametrize("arguments", [("--help",), ("list", "workloads"), ("run", "--help"), ("--version",)])
def test_starting_imports_nothing_heavy(arguments):
    assert not loaded(*arguments) & (FRAMEWORKS | {"dask", "distributed", "numpy", "scipy", "sqlalchemy"})


@pytest.mark.parametrize("arguments", [("list", "suites"), ("run", "--dry-run"), ("list", "runs")])
def test_the_parent_never_imports_a_framework(arguments):
    assert not loaded(*arguments) & FRAMEWORKS


def test_a_worker_needs_numpy_msgspec_psutil_and_its_framework_only():
    """With everything else of the parent's made unimportable, the worker's modules still import."""
    program = (
        "import sys\n"
        "for name in ('filelock', 'jinja2', 'platformdirs', 'rich', 'scipy', 'sqlalchemy', 'typer'):\n"
        "    sys.modules[name] = None\n"
        "import metalbench.harness.worker\n"
        "from metalbench.harness.catalog import Catalog\n"
        "catalog = Catalog()\n"
        "for name in catalog.workload_files:\n"
        "    catalog.workload(name)\n"
    )
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


def test_no_list_names_a_workload_or_a_framework():
    """The grid of files is the support matrix: the harness mentions none of them."""
    names = {path.stem for path in (ROOT / "workloads").glob("*.py") if path.stem != "base"} | {"tensorflow", "mlx"}
    for source in (ROOT / "harness").rglob("*.py"):
        constants = (node.value for node in ast.walk(ast.parse(source.read_text("utf-8"))) if isinstance(node, ast.Constant))
        assert not names & {value for value in constants if isinstance(value, str)}, source
