"""Wall time to a verdict on the same work: ``bench ab`` beside pytest-benchmark and asv, as a Markdown table.

    python tests/benchmarks/peers.py [--tries N]

The work is that of ``tests/plugins/paced.py``: one small NumPy product, done 100 times a call on the base's side, and 100, 106 or 110
times on the candidate's. The peers measure the same loop, its count read from a file of the project. Each runs as it comes, in an
environment of its own that is made beforehand in a temporary folder; one that can't be installed is left out, with a sentence. A verdict
is right if it says ``same`` of equal work and ``slower`` of slower work. The tools take turns, so that the machine's mood is the same for
all, and no run of metalbench elsewhere on the machine measures meanwhile.
"""

import argparse
import json
import os
import platform
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import chain, product
from pathlib import Path

import numpy as np

from metalbench import __version__
from metalbench.harness.host import host
from metalbench.harness.scheduler import measurement_lock
from metalbench.harness.uv import UvError, uv

PLUGINS = Path(__file__).parent.parent / "plugins"
COUNTS = runpy.run_path(str(PLUGINS / "paced.py"))["COUNTS"]
WORK = Path(__file__).with_name("peers_work.py").read_text("utf-8")
SCENARIOS = {"equal": "equal", "slower6": "6 % slower", "slower10": "10 % slower"}

ASV = """
import os
import sys

sys.path.insert(0, os.path.join(os.environ["ASV_ENV_DIR"], "project"))  # the commit as asv has checked it out
import paced


def time_work():
    paced.work()
"""
ASV_SAID = {"PERFORMANCE DECREASED": "slower", "PERFORMANCE INCREASED": "faster", "BENCHMARKS NOT SIGNIFICANTLY CHANGED": "same"}
ASV_COMPARED = {"got worse": "slower", "have improved": "faster", "stayed the same": "same"}


def run(*command, cwd, codes=(0,), variables=()):
    """Seconds, standard output and standard error. RuntimeError with both for another exit status than ``codes``."""
    environment = os.environ | dict(variables)
    begin = time.perf_counter()
    done = subprocess.run(command, check=False, cwd=cwd, env=environment, capture_output=True, text=True, encoding="utf-8")
    seconds = time.perf_counter() - begin
    if done.returncode not in codes:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return seconds, done.stdout, done.stderr


def install(folder, package, *others):
    """The folder of a new environment's programs, and the version that was installed."""
    uv("venv", "--python", sys.executable, str(folder))
    python = str(folder / "bin" / "python")
    uv("pip", "install", "--python", python, package, *others)
    version = f"from importlib.metadata import version; print(version({package!r}))"
    return folder / "bin", run(python, "-c", version, cwd=folder)[1].strip()


def write_work(folder, name):
    folder.mkdir(exist_ok=True)
    (folder / "paced.py").write_text(WORK, "utf-8")
    (folder / "count.txt").write_text(str(COUNTS[name]), "utf-8")


def worded(out, words):
    """The verdict whose words are in the output."""
    for said, verdict in words.items():
        if said in out:
            return verdict
    raise RuntimeError(f"No verdict in:\n{out}")


class Metalbench:
    rows = ("`bench ab`, threshold 3 %",)

    def __init__(self, folder):
        self.folder, self.version = folder, f"metalbench {__version__}"
        plugins = [str(PLUGINS / name) for name in ("faulty.py", "paced.py")]
        (folder / "bench.toml").write_text(f'plugins = {json.dumps(plugins)}\nstore = "results.sqlite"\n', "utf-8")

    def __call__(self, scenario):
        sides = ("--base", "base", "--candidate", scenario)
        work = ("--workload", "paced", "--case", "size=24", "--backend", "numpy-cpu")
        bench, waits = str(Path(sys.executable).with_name("bench")), True
        while waits:  # for another run to end, which is not the comparison's time: once more
            seconds, out, err = run(bench, "ab", *sides, *work, "--format", "json", cwd=self.folder)
            waits = "Another run is measuring" in err
        return seconds, [json.loads(out)["cells"][0]["time"]["verdict"]]


class PytestBenchmark:
    rows = ("pytest-benchmark, `median:5%`", "pytest-benchmark, `median:3%`, from the same runs")

    def __init__(self, folder):
        programs, version = install(folder / "environment", "pytest-benchmark", f"numpy=={np.__version__}")
        self.folder, self.python, self.version = folder, str(programs / "python"), f"pytest-benchmark {version}"

    def __call__(self, scenario):
        with tempfile.TemporaryDirectory(dir=self.folder) as name, measurement_lock():
            folder = Path(name)
            write_work(folder, "base")
            pytest = (self.python, "-m", "pytest", "paced.py", "--benchmark-autosave")
            base_seconds, *_ = run(*pytest, cwd=folder)
            write_work(folder, scenario)
            judged = run(*pytest, "--benchmark-compare", "--benchmark-compare-fail=median:5%", cwd=folder, codes=(0, 1))
            files = sorted(folder.glob(".benchmarks/*/*.json"))
            base, candidate = (json.loads(file.read_text("utf-8"))["benchmarks"][0]["stats"]["median"] for file in files)
        verdict = worded("".join(judged[1:]), {"Performance has regressed": "slower", "1 passed": "same"})
        return base_seconds + judged[0], [verdict, "slower" if candidate > 1.03 * base else "same"]


class Asv:
    rows = ("`asv continuous`, factor 1.1", "`asv compare`, factor 1.03, from the same runs")

    def __init__(self, folder):
        programs, version = install(folder / "environment", "asv", "virtualenv")
        self.folder, self.asv, self.version = folder, str(programs / "asv"), f"asv {version}"
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        self.variables = {"HOME": str(folder), "PATH": path, "GIT_CONFIG_GLOBAL": os.devnull}  # it writes a file into the home folder
        (folder / "benchmarks").mkdir()
        (folder / "benchmarks" / "__init__.py").write_text(ASV, "utf-8")
        settings = {"version": 1, "project": "paced", "repo": "project", "branches": ["main"], "environment_type": "virtualenv"}
        settings |= {"matrix": {"req": {"numpy": [np.__version__]}}, "build_command": [], "install_command": [], "uninstall_command": []}
        (folder / "asv.conf.json").write_text(json.dumps(settings), "utf-8")
        project, git = folder / "project", ("git", "-c", "user.name=peers", "-c", "user.email=peers@localhost")
        run(*git, "init", "--initial-branch", "main", str(project), cwd=folder, variables=self.variables)
        for name in ("base", *SCENARIOS):
            write_work(project, name)
            for command in (("add", "."), ("commit", "--allow-empty", "--message", name), ("tag", name)):
                run(*git, *command, cwd=project, variables=self.variables)
        self._asv("machine", "--yes")
        self._asv("run", "--quick", "ALL")  # makes its environment

    def __call__(self, scenario):
        with measurement_lock():
            seconds, out, _ = self._asv("continuous", "base", scenario, codes=(0, 1))
        _, compared, _ = self._asv("compare", "--split", "--factor", "1.03", "base", scenario)
        return seconds, [worded(out, ASV_SAID), worded(compared, ASV_COMPARED)]

    def _asv(self, *arguments, codes=(0,)):
        return run(self.asv, *arguments, cwd=self.folder, codes=codes, variables=self.variables)


def ready(folder):
    """The tools that can be had."""
    for made in (Metalbench, PytestBenchmark, Asv):
        own = folder / made.__name__.lower()
        own.mkdir()
        try:
            yield made(own)
        except (UvError, RuntimeError) as error:
            print(f"{made.__name__} is left out, since it can't be installed: {str(error).strip().splitlines()[-1]}\n")


def field(tries, right):
    """The median of the seconds, and how many verdicts were right, wrong and undecided."""
    counts = Counter("right" if verdict == right else "undecided" if verdict == "unsure" else "wrong" for _, verdict in tries)
    return f"{statistics.median(seconds for seconds, _ in tries):.1f} s, {counts['right']} / {counts['wrong']} / {counts['undecided']}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Wall time to a verdict, ours and others'.")
    parser.add_argument("--tries", type=int, default=10, help="of each tool and scenario (default: 10)")
    wanted = parser.parse_args().tries
    with tempfile.TemporaryDirectory() as name:
        tools = list(ready(Path(name)))
        found = {(row, scenario): [] for tool in tools for row in tool.rows for scenario in SCENARIOS}
        for number in range(wanted):
            for scenario, tool in product(SCENARIOS, tools):
                seconds, verdicts = tool(scenario)
                for row, verdict in zip(tool.rows, verdicts, strict=True):
                    found[row, scenario].append((seconds, verdict))
                print(f"{number + 1}/{wanted} {scenario}: {tool.version} {seconds:.1f} s, {', '.join(verdicts)}", file=sys.stderr)
    facts = host().facts
    versions = [f"Python {platform.python_version()}", f"NumPy {np.__version__}", *(tool.version for tool in tools)]
    print(f"{facts['chip']}, {facts['threads']} threads, {facts['memory_gib']} GiB, {facts['system']}; {', '.join(versions)}.\n")
    print(f"| tool | {' | '.join(SCENARIOS.values())} |\n| --- |{' --- |' * len(SCENARIOS)}")
    for row in chain.from_iterable(tool.rows for tool in tools):
        fields = [field(found[row, scenario], "same" if scenario == "equal" else "slower") for scenario in SCENARIOS]
        print(f"| {row} | {' | '.join(fields)} |")
    print(
        f"\nMedian wall time to the verdict, then how often that was right / wrong / undecided, in {wanted} tries. pytest-benchmark has no "
        "threshold of its own, and is asked by `--benchmark-compare-fail` for slower only; both of its runs count. asv's environments are "
        "made beforehand, and its building and installing of the two commits is left out. Only `bench ab` can be undecided: where the "
        "others see no change beyond their threshold, that counts as `same`."
    )
